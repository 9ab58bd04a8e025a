"""``millrace history confirm``: measure the builds before and after a change again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from millrace.analysis.history.confirmation import Outcome
from millrace.analysis.history.overview import series_view
from millrace.analysis.history.segments import series_names
from millrace.app import run
from millrace.campaign.policies import confirm
from millrace.campaign.policies.confirmation_outcome import outcomes
from millrace.cli.console import err, out
from millrace.cli.exclusive_host import quiet_host
from millrace.cli.store_option import store_option
from millrace.errors import Interrupted, UserError
from millrace.experiment.model import Experiment
from millrace.experiment.validation import MAX_BLOCKS
from millrace.report.common.formatting import counted
from millrace.report.history.tables import change_lines
from millrace.store.history_records import ChangeRecord
from millrace.store.records import StoredRun
from millrace.store.store import Store
from millrace.utc import utc_now


@click.command("confirm")
@click.argument("change")
@click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="How often both builds run; unless said, as often as a change of that size wants.",
)
@store_option
def command(*, change: str, blocks: int | None, store: Path) -> None:
    """Measure the builds before and after CHANGE (the beginning of its id) again, in turns.

    The change is confirmed or withdrawn; while neither is shown it stays a candidate, and the same
    command adds blocks. What the same trials show in other metrics is kept too.
    """
    with Store.open(store, create=False) as opened:
        wanted = opened.histories.find_change(change)
        _refuse_settled(wanted)
        plan = confirm.planned(opened, wanted, blocks)
    err.print(
        f"change {wanted.id} at {wanted.label}: {plan.builds.after.label} against "
        f"{plan.builds.before.label}, {counted(plan.experiment.blocks, 'block')}",
        markup=False,
    )
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"history confirm {wanted.id}"))
        opened = stack.enter_context(Store.open(store))
        measured = _measure(stack, opened, plan.experiment)
        found = outcomes(opened.histories, wanted, measured, plan.builds.ends, utc_now())
        opened.histories.keep([each.change for each in found])
        _tell(opened, found, measured.run.blocks)


def _refuse_settled(change: ChangeRecord) -> None:
    if change.state != "candidate":
        told = f": {change.reason}" if change.reason else ""
        raise UserError(
            f"change {change.id} at {change.label} is {change.state} already{told}",
            hint="`millrace history show` has what is known of it",
        )


def _measure(stack: ExitStack, store: Store, experiment: Experiment) -> StoredRun:
    """Carry the experiment out, or go on with it."""
    chosen = run.choose(store, experiment, fresh=False)
    try:
        run.carry_out(stack, store, chosen, retry_failed=True)
    except Interrupted as stopped:
        hint = "nothing is decided yet; the same command goes on where it was stopped"
        raise Interrupted(stopped.message, hint=hint) from None
    return store.load_run(chosen.run.id, observations_too=True)


def _tell(store: Store, found: Sequence[Outcome], blocks: int) -> None:
    names = series_names(store.histories.series())
    states = store.histories.states()
    changes = {each.change.series: each.change for each in found}
    for history in store.histories.read(changes.keys()):
        series = history.series.id
        (change,) = series_view(history, [changes[series]], states, names[series]).changes
        out.print(f"{change.change.id} of {change.name}", markup=False)
        for line in change_lines(change):
            out.print(f"  {line}", markup=False)
    first = found[0]
    again = first.change.remeasured
    if first.change.state == "candidate" and again is not None:
        out.print(f"{first.change.id} stays a candidate: {again.reason}", markup=False)
        if first.more_blocks:
            more = counted(first.more_blocks, "block")
            wanted = f"--blocks {blocks + first.more_blocks}"
            out.print(
                f"about {more} more would decide: "
                f"`millrace history confirm {first.change.id} {wanted}`",
                markup=False,
            )
