"""``millrace history detect``: look for versions at which a series changed its level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from millrace.analysis.history.overview import ChangeView, group_changes
from millrace.app import history as use_case
from millrace.cli.console import out
from millrace.cli.store_option import series_option, store_option
from millrace.report.common.formatting import counted
from millrace.report.common.terminal_table import show_table
from millrace.report.history.tables import changes_table, next_step, nothing_moved, too_few
from millrace.stats.change_points import Sensitivity


@click.command("detect")
@series_option
@click.option(
    "--sensitivity",
    type=click.Choice(["review", "alert"]),
    default="review",
    show_default=True,
    help="Changes for a list that is read once a week, or only those worth paging somebody.",
)
@store_option
def command(*, series: tuple[str, ...], sensitivity: Sensitivity, store: Path) -> None:
    """Look for versions at which a series changed its level.

    A change is a candidate until it is confirmed, and keeps its id when it is found again. Points
    from different environments are never compared.
    """
    found = use_case.detect(store, series, sensitivity=sensitivity)
    n_series = len(found.examined)
    points = counted(sum(found.examined.values()), "point")
    of = f"{points} in {counted(n_series, 'series', 'series')}, {counted(found.breaks, 'break')}"
    out.print(f"{of}; sensitivity {sensitivity}", markup=False)
    if found.changes:
        _show(found.changes, found.series_with)
        if found.too_few:
            out.print(too_few(found.too_few))
    else:
        out.print()
        out.print(nothing_moved(n_series, found.too_few))
    if found.lost:
        was = "candidate was" if found.lost == 1 else "candidates were"
        out.print(f"{found.lost} earlier {was} withdrawn: more points do not show it any more.")


def _show(shown: Sequence[ChangeView], series_with: Mapping[str, int]) -> None:
    others = [each for each in shown if not each.is_open]
    table = changes_table(group_changes(shown, series_with), others)
    if table is None:
        return
    out.print()
    show_table(table, out)
    step = next_step(shown)
    if step is not None:
        out.print()
        out.print(step, markup=False)
