"""``millrace history detect``: look for versions at which a series changed its level."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.analysis.history.changes import examine
from millrace.analysis.history.overview import ChangeView, group_changes, series_view
from millrace.analysis.history.segments import environment_changes, too_few_points
from millrace.cli.console import out
from millrace.cli.series_option import named_series, series_option
from millrace.cli.store_option import store_option
from millrace.report.common.formatting import counted
from millrace.report.common.terminal_table import show_table
from millrace.report.history.tables import changes_table, next_step, nothing_moved, too_few
from millrace.stats.change_points import Sensitivity
from millrace.store.history_records import ChangeRecord
from millrace.store.store import Store
from millrace.utc import utc_now


@click.command("detect")
@series_option
@click.option(
    "--sensitivity",
    type=click.Choice(["list", "page"]),
    default="list",
    show_default=True,
    help="Changes for a list that is read once a week, or only those worth paging somebody.",
)
@store_option
def command(*, series: tuple[str, ...], sensitivity: Sensitivity, store: Path) -> None:
    """Look for versions at which a series changed its level.

    What is found is a candidate, and keeps its id when it is found again. Points that were measured
    in different states of host or configuration are never compared.
    """
    now = utc_now()
    known: dict[str, list[ChangeRecord]] = {}
    changes: list[ChangeRecord] = []
    shown: list[ChangeView] = []
    examined: dict[str, int] = {}
    n_breaks = n_lost = n_too_few = 0
    with Store.open(store, create=False) as opened:
        names = named_series(opened, store, series)
        for change in opened.histories.changes():
            known.setdefault(change.series, []).append(change)
        states = opened.histories.states()
        for history in opened.histories.read(names.keys()):
            before = known.get(history.series.id, [])
            result = examine(history, before, sensitivity=sensitivity, now_utc=now)
            changes += [each for each in result.changes if each not in before]
            examined[history.series.id] = len(history.points)
            n_breaks += len(environment_changes(history.points, states))
            n_lost += len(result.lost)
            n_too_few += too_few_points(history.points)
            told = [each for each in result.changes if each.id in result.found | result.lost]
            if told:
                name = names[history.series.id]
                shown += series_view(history, told, states, name).changes
        opened.histories.keep(changes, examined)
        labels = {label for each in shown for label in each.within}
        series_with = opened.histories.series_with(labels)
    points = counted(sum(examined.values()), "point")
    of = f"{points} in {counted(len(examined), 'series', 'series')}, {counted(n_breaks, 'break')}"
    out.print(f"{of}; sensitivity {sensitivity}", markup=False)
    if shown:
        _show(shown, series_with)
        if n_too_few:
            out.print(too_few(n_too_few))
    else:
        out.print()
        out.print(nothing_moved(len(examined), n_too_few))
    if n_lost:
        was = "candidate was" if n_lost == 1 else "candidates were"
        out.print(f"{n_lost} earlier {was} withdrawn: more points do not show it any more.")


def _show(shown: list[ChangeView], series_with: dict[str, int]) -> None:
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
