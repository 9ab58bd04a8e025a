"""Measure an experiment, or resume it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from millrace.app.exclusive_host import exclusive_host
from millrace.app.execution import Caller, execute_run, select_run
from millrace.app.report import RunReport, report_of
from millrace.experiment.model import Experiment
from millrace.store.store import Store


def run(
    path: Path,
    experiment: Experiment,
    caller: Caller,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
) -> RunReport:
    """Measure the trials of an experiment that have no result; return the report of its run.

    The run is the newest in the store at ``path`` that can be resumed, a new one if there is none
    or with ``fresh``. Raise Interrupted when the user stops it, HostError when the host cannot
    continue; calling it again resumes the run.
    """
    with ExitStack() as stack:
        stack.enter_context(exclusive_host(f"run {experiment.name}", caller.on_event))
        store = stack.enter_context(Store.open(path))
        selection = select_run(store, experiment, caller, fresh=fresh)
        execute_run(stack, store, selection, caller, retry_failed=retry_failed)
        stored = store.load_run(selection.run.id, observations_too=True)
        base = str(experiment.compare.base)
        return report_of(store, stored, margin=experiment.margin, base=base)
