"""``millrace history show``: series, their changes and what became of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from millrace.analysis.history.overview import (
    ChangeGroup,
    ChangeView,
    SeriesView,
    group_changes,
    series_view,
)
from millrace.analysis.history.segments import EnvironmentChange
from millrace.cli.console import echo, err, out
from millrace.cli.series_option import named_series, series_option
from millrace.cli.store_option import store_option
from millrace.report.common.formatting import counted
from millrace.report.common.output_files import PAGE, write_text
from millrace.report.common.tables import Row
from millrace.report.common.terminal_table import show_table
from millrace.report.history import html as history_html
from millrace.report.history import json as history_json
from millrace.report.history.tables import (
    break_lines,
    change_lines,
    changes_table,
    next_step,
    series_row,
    series_table,
)
from millrace.store.history_records import ChangeRecord
from millrace.store.store import Store


@click.command("show")
@series_option
@click.option(
    "--html",
    "html_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page with a chart of each series.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@store_option
def command(*, series: tuple[str, ...], html_file: Path | None, as_json: bool, store: Path) -> None:
    """Show series of histories, their changes and what became of these.

    Ratios are to the reference of the series; a change is new level / old level. Only a confirmed
    change is a fact.
    """
    with Store.open(store, read_only=True) as opened:
        names = named_series(opened, store, series)
        if as_json or html_file is not None:
            shown = list(_seen(opened, names))
            found = _groups(opened, [each for one in shown for each in one.changes])
            if html_file is not None:
                page = history_html.as_html(shown, found)
                written = write_text(html_file, page, PAGE, option="--html")
                err.print(f"page: {written}", markup=False)
            if as_json:
                echo(history_json.as_json(shown, found, opened.histories.states()))
            return
        _show(opened, names)


def _seen(store: Store, names: Mapping[str, str]) -> Iterator[SeriesView]:
    changes: dict[str, list[ChangeRecord]] = {}
    for change in store.histories.changes():
        changes.setdefault(change.series, []).append(change)
    states = store.histories.states()
    for history in store.histories.read(names.keys()):
        series = history.series.id
        yield series_view(history, changes.get(series, []), states, names[series])


def _groups(store: Store, changes: Sequence[ChangeView]) -> tuple[ChangeGroup, ...]:
    labels = {label for each in changes for label in each.within}
    return group_changes(changes, store.histories.series_with(labels))


def _show(store: Store, names: Mapping[str, str]) -> None:
    """Series by series, so that no more than one's points are held."""
    rows: list[Row] = []
    changes: list[ChangeView] = []
    broken: list[EnvironmentChange] = []
    unexamined = 0
    for each in _seen(store, names):
        rows.append(series_row(each))
        changes += each.changes
        unexamined += each.unexamined > 0
        broken += each.environment_changes
    show_table(series_table(rows), out)
    for line in break_lines(broken):
        out.print(line, markup=False)
    table = changes_table(_groups(store, changes), [c for c in changes if not c.is_open])
    if table is not None:
        out.print()
        show_table(table, out)
        for change in changes:
            _show_story(change)
    step = next_step(changes)
    if step is not None:
        out.print()
        out.print(step, markup=False)
    if unexamined:
        of = counted(unexamined, "series has", "series have")
        out.print(f"{of} new points: `millrace history detect` looks for changes.", markup=False)


def _show_story(seen: ChangeView) -> None:
    """What became of a change, where more is known than its row says."""
    change = seen.change
    if change.remeasured or change.note or change.reason:
        out.print(f"\n{change.id} of {seen.name}", markup=False)
        for line in change_lines(seen):
            out.print(f"  {line}", markup=False)
