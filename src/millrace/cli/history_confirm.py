"""``millrace history confirm``: measure the builds before and after a change again."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.app import confirm as use_case
from millrace.app.confirm import Confirmation
from millrace.cli.caller import calling
from millrace.cli.console import out
from millrace.cli.store_option import store_option
from millrace.experiment.validation import MAX_BLOCKS
from millrace.report.common.formatting import counted
from millrace.report.history.tables import change_lines


@click.command("confirm")
@click.argument("change")
@click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Number of blocks (default: as many as a change of this size needs).",
)
@store_option
def command(*, change: str, blocks: int | None, store: Path) -> None:
    """Measure the builds before and after CHANGE (the beginning of its id) again, interleaved.

    The result confirms or withdraws the change. Without a result it stays a candidate, and the same
    command adds blocks. Changes of other metrics that the same trials measure are settled too.
    """
    with calling() as caller:
        found = use_case.confirm(store, change, caller, blocks=blocks)
    _show(found)


def _show(found: Confirmation) -> None:
    for change in found.changes:
        out.print(f"{change.change.id} of {change.name}", markup=False)
        for line in change_lines(change):
            out.print(f"  {line}", markup=False)
    first = found.outcomes[0]
    again = first.change.remeasured
    if first.change.state == "candidate" and again is not None:
        out.print(f"{first.change.id} stays a candidate: {again.reason}", markup=False)
        if first.more_blocks:
            more = counted(first.more_blocks, "block")
            option = f"--blocks {found.blocks + first.more_blocks}"
            out.print(
                f"about {more} more would decide: "
                f"`millrace history confirm {first.change.id} {option}`",
                markup=False,
            )
