"""Measure exactly the blocks of the plan; in a later session, the trials that are left of it."""

from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import waiting_trials
from millrace.campaign.scheduler import Batch, End
from millrace.model.events import RunOpened
from millrace.store.records import RunRecord, StoredRun


class Fixed:
    """The policy that measures all trials without a result.

    With ``retry_failed`` it also measures those that failed.
    """

    def __init__(self, selection: RunSelection, *, retry_failed: bool = False) -> None:
        self._selection = selection
        self._retry_failed = retry_failed
        self._is_started = False

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the whole plan once; see ``campaign.scheduler.Policy``."""
        if self._is_started:
            return End("done")
        self._is_started = True
        run, plan = self._selection.run, self._selection.plan
        waiting = {trial.id for trial in plan.trials}
        if stored is not None:
            waiting = waiting_trials(stored, plan, retry_failed=self._retry_failed)
        if stored is not None and not waiting:
            return End("done", (_opened(run, len(stored.trials), 0),))
        opened = _opened(run, len(plan.trials), len(waiting))
        return Batch(plan, run.blocks, retry_failed=self._retry_failed, events=(opened,))


def _opened(run: RunRecord, trials: int, waiting: int) -> RunOpened:
    """Return the event that begins the run, or tells that nothing of it is waiting."""
    confirms = run.spec.confirms
    return RunOpened(run=run.id, seed=run.seed, trials=trials, waiting=waiting, confirms=confirms)
