"""Count the instructions of a trial's statements, in a server that is started for it."""

import statistics
from contextlib import ExitStack

from elftools.common.exceptions import ELFError

from millrace.errors import HostError
from millrace.host import elf, valgrind
from millrace.host.valgrind import Valgrind
from millrace.model.instruction_counts import Program
from millrace.model.measurements import INSTRUCTIONS
from millrace.model.roles import SERVER
from millrace.model.servers import AttachedServer, InstalledServer
from millrace.model.stored_counts import stored_counts
from millrace.store.records import AttemptResult
from millrace.trial.count_extent import Extent
from millrace.trial.counted_start import CountedServer
from millrace.trial.execute import attempt_result, reason_of
from millrace.trial.load_run import Emit
from millrace.trial.outputs import TrialOutputs
from millrace.trial.spec import TrialSpec
from millrace.trial.trial_server import TrialContext


def refusal(spec: TrialSpec) -> str | None:
    """Return why no instructions of a trial can be counted; None where they can."""
    if any(isinstance(each.server, AttachedServer) for each in spec.servers):
        return "the server is attached, and millrace cannot start it in valgrind"
    if len(spec.servers) > 1:
        return (
            "it has several servers, and a statement's instructions would be those of one of them"
        )
    if not spec.workload.is_restorable:
        return "it has no statements of clients on tables that are kept as a snapshot"
    return None


def count_trial(spec: TrialSpec, extent: Extent | None, emit: Emit) -> AttemptResult:
    """Count the statements of a trial and return its result, with a failure as one.

    It starts the server once more where that fails, as it may on a busy host.
    """
    why = refusal(spec)
    if why is not None:
        return AttemptResult("failed", failed_step="prepare", reason=why)
    try:
        program = valgrind.find()
    except HostError as error:
        return AttemptResult("failed", failed_step="prepare", reason=reason_of(error))
    first = _count_trial(spec, program, extent, emit)
    if first.outcome == "finished" or first.is_transient:
        return first
    return _count_trial(spec, program, extent, emit)


def _count_trial(
    spec: TrialSpec, counting: Valgrind, extent: Extent | None, emit: Emit
) -> AttemptResult:
    outputs = TrialOutputs()
    with ExitStack() as opened:
        start = CountedServer(TrialContext(spec, outputs, opened, emit), counting, extent)
        ended = start.execute()
        if start.found is not None:
            repetitions = [each.instructions for each in start.found.repetitions]
            outputs.add_measurement(INSTRUCTIONS, round(statistics.median(repetitions)))
            counts = stored_counts(start.found, program_of(spec), counting.version)
            outputs.observations[SERVER] = {"instructions": counts}
        return attempt_result(outputs, ended)


def program_of(spec: TrialSpec) -> Program | None:
    """Return what the program of a trial's server says of how it was made."""
    (server,) = (each.server for each in spec.servers)
    assert isinstance(server, InstalledServer)  # others are refused
    try:
        read = elf.read(server.program)
    except (ELFError, OSError):
        return None
    return Program(read.comment, read.is_position_independent)
