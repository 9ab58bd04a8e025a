"""One trial of one treatment: its declared steps, and the result that is stored.

    our own     prepare · restore · start · record · database · settle · phases · stop · sizes
                prepare · restore · start · record · check_tables · warm · fits · settle ·
                measure · stop · sizes
    attached    prepare · record · database · phases that load · analyse · warm · fits · settle ·
                phases · drop

The phases come from the workload and are carried out by the load generator. In the first form they
are what is measured (create, load, finish, count, verify of the load-data workload). In the second
clients are driven on tables that come from a snapshot; the trial that finds none makes it first
(initialise · start · database · load · verify · analyse · keep · stop · save). In the first form
the snapshot holds what the server initialises (initialise · save). Trials after the first block
*kill* their server instead of *stop · sizes*: a clean stop takes seconds, and its data is
discarded. Settling comes right before what is measured, so that nothing an earlier step left dirty
is written back while it is timed. A step that fails ends the trial as a failed one, with the step,
the reason and the server's log. The two trials of a pair that is measured side by side *meet*
before they measure.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from millrace.errors import MillraceError, TrialFailed
from millrace.model.events import StepBegan
from millrace.model.servers import AttachedServer
from millrace.store.records import AttemptResult
from millrace.trial.barrier import Meet, alone
from millrace.trial.external_trial import ExternalTrial
from millrace.trial.managed_trial import ManagedTrial
from millrace.trial.measure import Announce, Found, TrialSpec
from millrace.trial.steps import Step, carry_out
from millrace.trial.transient import TransientFailure, is_transient


def execute_trial(given: TrialSpec, announce: Announce, meet: Meet = alone) -> AttemptResult:
    """Carry the trial out and return its result; a failure is a result.

    ``announce`` gets an event before each step, and once a second while the load generator works.
    ``meet`` is how a trial with half of the CPUs waits for the other of its pair. Raises
    Interrupted, after everything was closed, when the user stops the run.
    """
    found = Found()
    with ExitStack() as opened:
        steps: Iterable[Step]
        if isinstance(given.server, AttachedServer):
            steps = ExternalTrial(given, given.server, opened, found, announce).steps()
        else:
            steps = ManagedTrial(given, given.server, opened, found, announce, meet).steps()
        ended = carry_out(steps, lambda step: announce(StepBegan(name=step)))
        told = ended.cause.log_tail if isinstance(ended.cause, TrialFailed) else None
        log_tail = told or found.log_tail() if ended.cause is not None else None
        log = found.log()
    for_now = ended.cause is not None and is_transient(ended.cause, log_tail)
    return (TransientFailure if for_now else AttemptResult)(
        outcome="finished" if ended.cause is None else "failed",
        steps=ended.steps,
        instances=tuple(found.instances),
        measurements=tuple(found.measurements),
        failed_step=ended.failed,
        reason=None if ended.cause is None else _reason(ended.cause),
        log_tail=log_tail,
        artefacts=(
            *found.artefacts,
            *(() if log is None else (("error_log", "server", log),)),
        ),
        histograms=tuple(found.histograms),
        observations=found.observations,
    )


def _reason(cause: Exception) -> str:
    """What happened, and what to do about it where that is known."""
    text = str(cause) or type(cause).__name__
    hint = cause.hint if isinstance(cause, MillraceError) else None
    return f"{text}; {hint}" if hint else text
