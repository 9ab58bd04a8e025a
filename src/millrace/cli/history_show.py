"""``millrace history show``: series, their changes and what became of these."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.analysis.history.overview import ChangeView
from millrace.analysis.history.segments import EnvironmentChange
from millrace.app import history as use_case
from millrace.app.history import Histories
from millrace.cli.console import echo, err, out
from millrace.cli.store_option import series_option, store_option
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
    with use_case.histories(store, series) as found:
        if not as_json and html_file is None:
            _show(found)
            return
        shown = list(found.series())
        changed = found.groups([each for one in shown for each in one.changes])
        if html_file is not None:
            page = history_html.as_html(shown, changed)
            written = write_text(html_file, page, PAGE, option="--html")
            err.print(f"page: {written}", markup=False)
        if as_json:
            echo(history_json.as_json(shown, changed, found.states()))


def _show(histories: Histories) -> None:
    """Print series by series, so that only one's points are in memory."""
    rows: list[Row] = []
    changes: list[ChangeView] = []
    broken: list[EnvironmentChange] = []
    unexamined = 0
    for each in histories.series():
        rows.append(series_row(each))
        changes += each.changes
        unexamined += each.unexamined > 0
        broken += each.environment_changes
    show_table(series_table(rows), out)
    for line in break_lines(broken):
        out.print(line, markup=False)
    table = changes_table(histories.groups(changes), [c for c in changes if not c.is_open])
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
    """Print what became of a change, where more is known than its row says."""
    change = seen.change
    if change.remeasured or change.note or change.reason:
        out.print(f"\n{change.id} of {seen.name}", markup=False)
        for line in change_lines(seen):
            out.print(f"  {line}", markup=False)
