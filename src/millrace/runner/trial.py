"""One trial of one treatment: its declared steps, and the result that is stored.

    our own     prepare · initialise · start · record · database · settle · phases · stop · sizes
    attached    prepare · record · database · settle · phases · drop

The phases (create, load, finish, count, verify of the load-data workload) come from the workload
and are carried out by the load generator on one connection. Settling comes right before them, so
that nothing an initialisation left dirty is written back while they are timed. A step that fails
ends the trial as a failed one, with the step, the reason and the server's log.
"""

from __future__ import annotations

from contextlib import ExitStack

from millrace.errors import MillraceError, TrialFailed
from millrace.runner.attached_server import AttachedServerTrial
from millrace.runner.measuring import Announce, Found, TrialInput
from millrace.runner.own_server import OwnServerTrial
from millrace.runner.steps import carry_out
from millrace.servers.model import AttachedServer
from millrace.store.records import AttemptResult


def carry_out_trial(given: TrialInput, announce: Announce) -> AttemptResult:
    """Carry the trial out and return its result; a failure is a result.

    ``announce`` gets events as plain data: {"event": "step", "name": ...} before each step and
    {"event": "interval", "phase", "t_s", "rows"} once a second while rows are sent. Raises
    Interrupted, after everything was closed, when the user stops the run.
    """
    found = Found()
    with ExitStack() as opened:
        if isinstance(given.server, AttachedServer):
            steps = AttachedServerTrial(given, given.server, opened, found, announce).steps()
        else:
            steps = OwnServerTrial(given, given.server, opened, found, announce).steps()
        ended = carry_out(steps, lambda step: announce({"event": "step", "name": step}))
        told = ended.cause.log_tail if isinstance(ended.cause, TrialFailed) else None
        log_tail = told or found.log_tail() if ended.cause is not None else None
        log = found.log()
    return AttemptResult(
        outcome="finished" if ended.cause is None else "failed",
        steps=ended.steps,
        instances=tuple(found.instances),
        measurements=tuple(found.measurements),
        failed_step=ended.failed,
        reason=None if ended.cause is None else _reason(ended.cause),
        log_tail=log_tail,
        artefacts=() if log is None else (("error_log", "server", log),),
    )


def _reason(cause: Exception) -> str:
    """What happened, and what to do about it where that is known."""
    text = str(cause) or type(cause).__name__
    remedy = cause.remedy if isinstance(cause, MillraceError) else None
    return f"{text}; {remedy}" if remedy else text
