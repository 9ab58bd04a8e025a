"""Confirm or withdraw a change of a history by measuring its builds again."""

from dataclasses import dataclass
from pathlib import Path

from millrace.analysis.history.confirmation import Outcome
from millrace.analysis.history.overview import ChangeView, series_view
from millrace.analysis.history.segments import series_names
from millrace.app.execution import Caller, execute_run, measuring, select_run
from millrace.campaign.policies import confirm as policy
from millrace.campaign.policies.confirm import outcomes
from millrace.errors import Interrupted, UserError
from millrace.model.events import Notice
from millrace.quantities import counted, utc_now
from millrace.store.store import Store


@dataclass(frozen=True)
class Confirmation:
    """The outcome for a change, and for changes of other metrics that the same trials measured.

    ``outcomes`` starts with that of the change itself. ``changes`` are the changed series' views.
    ``blocks`` is the number of blocks of the run that measured them.
    """

    outcomes: tuple[Outcome, ...]
    changes: tuple[ChangeView, ...]
    blocks: int


def confirm(path: Path, change: str, caller: Caller, *, blocks: int | None = None) -> Confirmation:
    """Measure the builds before and after a change again, interleaved.

    ``change`` is the beginning of its id. ``blocks`` is the number of blocks, None for as many as a
    change of this size needs. Raise UserError if the change is already confirmed or withdrawn, or
    its builds cannot be measured again.
    """
    with Store.open(path, create=False) as store:
        candidate = store.histories.find_change(change)
        if candidate.state != "candidate":
            reason = f": {candidate.reason}" if candidate.reason else ""
            raise UserError(
                f"change {candidate.id} at {candidate.label} is already {candidate.state}{reason}",
                hint="`millrace history show` shows its state and its measurements",
            )
        plan = policy.planned(store, candidate, blocks)
    builds = plan.builds
    caller.on_event(
        Notice(
            f"change {candidate.id} at {candidate.label}: {builds.after.label} against "
            f"{builds.before.label}, {counted(plan.experiment.blocks, 'block')}"
        )
    )
    with measuring(path, f"history confirm {candidate.id}", caller) as (stack, store):
        selection = select_run(store, plan.experiment, caller)
        try:
            execute_run(stack, store, selection, caller, retry_failed=True)
        except Interrupted as stopped:
            hint = "the change is still a candidate; the same command resumes the measurement"
            raise Interrupted(stopped.message, hint=hint) from None
        measured = store.load_run(selection.run.id, observations_too=True)
        found = outcomes(store.histories, candidate, measured, builds.ends, utc_now())
        store.histories.keep([each.change for each in found])
        return Confirmation(tuple(found), _changes(store, found), measured.run.blocks)


def _changes(store: Store, found: list[Outcome]) -> tuple[ChangeView, ...]:
    names = series_names(store.histories.series())
    states = store.histories.states()
    changed = {each.change.series: each.change for each in found}
    return tuple(
        change
        for history in store.histories.read(changed.keys())
        for change in series_view(
            history, [changed[history.series.id]], states, names[history.series.id]
        ).changes
    )
