"""Execute one trial of one treatment: its declared steps, and the result that is stored.

    loads       READY · settle · measure · CHECKS · END
    clients     READY · warm · fits · settle · (loops ·) measure · CHECKS · END
    full disk   READY · load · complete_files · list_rows · fill · restart · compare_rows

READY are the steps of each server until it is live, see ``ManagedServer`` and ``ExternalServer``.
CHECKS are those of the workload, a step each. END is *(rows ·) stop · sizes*, *kill* after the
first block, because a clean stop takes seconds and the data is discarded, and *drop* of an attached
server's database; with ``drop_after``, *write_back · sizes · drop · stop*. Where clients are driven
in loops, all but the last of them are the step *loops*.

Settling comes right before the measurement, so that no dirty page of an earlier step is written
back meanwhile. A step that fails ends the trial as failed, with the step, the reason and the
server's log.
"""

import errno
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from millrace import databases, errors
from millrace.model.events import StepBegan
from millrace.model.servers import AttachedServer
from millrace.servers.snapshots.kept_data import KeptData
from millrace.shown_text import shown_line
from millrace.store.records import AttemptResult, StepRecord
from millrace.trial import collection, measure, phase_spec, time_limits
from millrace.trial.client_preparation import ClientPreparation
from millrace.trial.data_file import sync_and_cache
from millrace.trial.external_server import ExternalServer
from millrace.trial.full_disk import FullDisk
from millrace.trial.hooks import LiveServer, MeasurementContext
from millrace.trial.load_run import Emit
from millrace.trial.loops import Loops, seeded
from millrace.trial.managed_server import ManagedServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.steps import Step, StepsOutcome, execute_steps
from millrace.trial.time_limits import scan_limit_s
from millrace.trial.trial_server import TrialContext, TrialServer, steps_of_role
from millrace.workloads.definition import Check

_WRITE_BACK_LIMIT_S = 600.0
_LONGEST_REASON = 4000  # characters
_OF_THE_HOST = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
)


def execute_trial(spec: TrialSpec, emit: Emit) -> AttemptResult:
    """Execute the trial and return its result; a failure is a result.

    ``emit`` gets an event before each step, and once a second while the load generator works. The
    data directory of a trial in loops is kept, so that nothing is lost before the result is stored.
    Raise Interrupted, after everything was closed, when the user stops the run.
    """
    outputs = TrialOutputs()
    kept = KeptData.of(spec.name) if spec.loops > 1 else None
    with ExitStack() as opened:
        steps = _steps(TrialContext(spec, outputs, opened, emit, kept))
        ended = execute_steps(steps, lambda step: emit(StepBegan(name=step)))
        fills_disk = spec.workload.checked.fills_disk
        return attempt_result(outputs, ended, fills_disk=fills_disk)


def attempt_result(
    outputs: TrialOutputs, ended: StepsOutcome, *, fills_disk: bool = False
) -> AttemptResult:
    """Return the result of a trial whose servers still have their files.

    Where the trial ``fills_disk``, a server that says so does not tell of the host.
    """
    log_tail = None
    cause = ended.cause
    if cause is not None:
        cause = _explained(cause, outputs)
        of_failure = cause.log_tail if isinstance(cause, errors.TrialFailed) else None
        log_tail = of_failure or outputs.log_tail()
    return AttemptResult(
        outcome="finished" if cause is None else "failed",
        steps=ended.steps,
        instances=tuple(outputs.instances.values()),
        measurements=tuple(outputs.measurements),
        failed_step=ended.failed,
        reason=None if cause is None else reason_of(cause),
        log_tail=log_tail,
        artefacts=(*outputs.artefacts, *outputs.error_logs()),
        histograms=tuple(outputs.histograms),
        observations=outputs.observations,
        is_transient=cause is not None and is_transient(cause, log_tail, fills_disk=fills_disk),
    )


def _explained(cause: Exception, outputs: TrialOutputs) -> Exception:
    """Return the end of the server whose end a session of millrace noticed, else the cause."""
    noticed = cause if isinstance(cause, errors.DatabaseError) else cause.__cause__
    if not isinstance(noticed, errors.DatabaseError) or noticed.kind not in ("unreachable", "lost"):
        return cause
    return outputs.end_of_a_server() or cause


def _steps(trial: TrialContext) -> Iterator[Step]:
    spec = trial.spec
    servers = servers_of(trial)
    if spec.workload.checked.fills_disk:
        yield from _full_disk_steps(trial, servers[0])
        return
    if spec.workload.drives:
        live = yield from driven_steps(trial, servers)
    else:
        live = yield from started_steps(servers)
        yield write_back_step(live[0])
    yield from _measuring_steps(trial, tuple(live))
    yield from checking_steps(spec.workload, live[0])
    for server in reversed(servers):
        yield from steps_of_role(server.spec.role, server.end_steps())


def _full_disk_steps(trial: TrialContext, server: TrialServer) -> Iterator[Step]:
    (live,) = yield from started_steps([server])
    assert isinstance(server, ManagedServer)  # others are refused
    assert server.filesystem is not None
    yield from FullDisk(trial, live, server.instance, server.filesystem).steps()


def servers_of(trial: TrialContext) -> list[TrialServer]:
    """Return the servers of a trial, which are not prepared yet."""
    return [_server(each, trial) for each in trial.spec.servers]


def started_steps(servers: Sequence[TrialServer]) -> Generator[Step, None, list[LiveServer]]:
    """Yield the steps that start the servers, and return these."""
    for server in servers:
        yield from steps_of_role(server.spec.role, server.ready_steps())
    return [server.live() for server in servers]


def write_back_step(server: LiveServer) -> Step:
    """Return the step right before a load is measured."""
    data_file = server.data_file
    return Step("settle", lambda _limit_s: sync_and_cache(data_file), _WRITE_BACK_LIMIT_S)


def driven_steps(
    trial: TrialContext, servers: Sequence[TrialServer]
) -> Generator[Step, None, list[LiveServer]]:
    """Yield the steps until clients can be driven on the servers, and return these."""
    preparations = yield from warming_steps(trial, servers)
    for preparation in preparations:
        yield from steps_of_role(preparation.server.role, (preparation.settling_step(),))
    return [each.prepared() for each in preparations]


def warming_steps(
    trial: TrialContext, servers: Sequence[TrialServer]
) -> Generator[Step, None, list[ClientPreparation]]:
    """Yield the steps until the servers only have to settle, and return their preparations."""
    live = yield from started_steps(servers)
    preparations = [
        ClientPreparation(trial.spec.workload, server, trial.outputs, trial.emit) for server in live
    ]
    for preparation in preparations:
        yield from steps_of_role(preparation.server.role, preparation.warming_steps())
    return preparations


def _server(spec: ServerSpec, trial: TrialContext) -> TrialServer:
    if isinstance(spec.server, AttachedServer):
        return ExternalServer(spec, spec.server, trial)
    return ManagedServer(spec, spec.server, trial)


def _measuring_steps(trial: TrialContext, servers: tuple[LiveServer, ...]) -> Iterator[Step]:
    """Yield the measurement, and before it that of earlier loops of the same clients."""
    spec, driven = trial.spec, servers[0]
    phases = spec.workload.measuring_phases
    load_limit_s = time_limits.limit_s(phases, spec.workload)
    limit_s = load_limit_s + time_limits.replica_limit_s(spec.workload)
    limit_s += collection.RESULT_LIMIT_S
    window = collection.window(spec.workload)
    loops = None
    if trial.kept is not None:
        loops = Loops(trial, driven, trial.kept, window.last)

    def measure_loop(
        number: int, outputs: TrialOutputs, collectors: tuple[str, ...] = ()
    ) -> Sequence[StepRecord]:
        load_spec = phase_spec.load_spec(
            phases, spec.workload, driven.dialect, driven.measured_connection, driven.data_file
        )
        measurement = MeasurementContext(
            replace(spec, collectors=collectors),
            servers,
            seeded(load_spec, number),
            window,
            outputs,
        )
        return measure.measure(measurement, trial.emit, load_limit_s)

    def measure_last(_limit_s: float) -> Sequence[StepRecord]:
        records = measure_loop(spec.loops, trial.outputs, spec.collectors)
        if loops is not None:
            loops.end()
        return records

    if loops is not None:
        earlier = partial(loops.measure_earlier, measure_loop)
        yield Step("loops", earlier, spec.loops * limit_s)
    yield Step("measure", measure_last, limit_s)


def is_transient(
    cause: BaseException, log_tail: str | None = None, *, fills_disk: bool = False
) -> bool:
    """Return whether a later attempt may succeed: the host failed, not the server.

    A server whose trial ``fills_disk`` is expected to speak of a full disk.
    """
    if isinstance(cause, errors.UnusablePlace):
        return True
    if isinstance(cause, errors.HostError):
        return not isinstance(cause, errors.PermanentHostError)
    if isinstance(cause, OSError):
        return cause.errno in _OF_THE_HOST
    if isinstance(cause, errors.TrialFailed) and not fills_disk:
        return databases.says_disk_full(f"{cause}\n{cause.log_tail or ''}\n{log_tail or ''}")
    return False


def reason_of(cause: Exception) -> str:
    """Return the cause, with the hint where there is one."""
    text = str(cause) or type(cause).__name__
    if len(text) > _LONGEST_REASON:  # a server may have said it
        text = f"{text[:_LONGEST_REASON]}…"
    hint = cause.hint if isinstance(cause, errors.MillraceError) else None
    return f"{text}; {hint}" if hint else text


_SHOWN_ROWS = 3
_SHOWN_CHARACTERS = 200


def checking_steps(workload: ResolvedWorkload, server: LiveServer) -> Iterator[Step]:
    """Yield a step for each check of the workload, which fails where the server returns rows."""
    for check in workload.checked.checks:
        action = partial(_check, check, workload, server)
        yield Step(f"check_{check.name}", action, scan_limit_s(workload))


def _check(check: Check, workload: ResolvedWorkload, server: LiveServer, limit_s: float) -> None:
    sql = check.query(workload.values)
    administration = server.client.family.administration
    rows = administration.first_rows(server.client, server.database, sql, _SHOWN_ROWS + 1, limit_s)
    if rows:
        shown = ", ".join(f"({', '.join(row)})" for row in rows[:_SHOWN_ROWS])
        more = " and more" if len(rows) > _SHOWN_ROWS else ""
        raise errors.TrialFailed(
            f"the condition {check.name} is violated after the run ({check.title}): the server "
            f"returns {shown_line(shown)[:_SHOWN_CHARACTERS]}{more}",
            hint="look at the server's error log: committed transactions left tables that "
            "contradict each other",
        )
