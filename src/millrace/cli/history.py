"""Provide ``millrace history``: performance from version to version, and where it changed."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import click

from millrace.analysis.history.overview import ChangeView, group_changes
from millrace.analysis.history.segments import EnvironmentChange
from millrace.app import history as use_case
from millrace.app.history import HistoriesView
from millrace.cli import options
from millrace.cli.console import echo, err, out
from millrace.cli.event_text import calling
from millrace.errors import UserError
from millrace.experiment.settings import MAX_BLOCKS
from millrace.output_files import PAGE, write_text
from millrace.quantities import counted
from millrace.report import history
from millrace.report.common.tables import Row
from millrace.report.common.terminal_table import show_table
from millrace.stats.change_points import Sensitivity
from millrace.store.history_records import Recorded

_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S %z")


def date_or_time(text: str) -> datetime:
    """Return the date or time in ``text``, in ISO 8601 or in git's format."""
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # noqa: DTZ007 (app.history knows the zone)
    like = "2026-05-01 or 2026-05-01T02:00:00+02:00"
    raise click.BadParameter(f"{text!r} is not a date such as {like}.")


@click.group("history", cls=options.OrderedGroup)
def command() -> None:
    """Watch performance from version to version.

    A point is the ratio of a version to a reference build that was measured in the same blocks. A
    level change in a series is a candidate until `history confirm` measures it again.
    """


@command.command("record", short_help="Add a run's ratios to a reference build.")
@click.argument("run")
@click.option(
    "--reference",
    metavar="LEVEL",
    help="The level that all ratios refer to (default: the run's base).",
)
@click.option("--label", metavar="VERSION", help="Version or commit (default: the level's name).")
@click.option(
    "--date",
    "date",
    type=date_or_time,
    metavar="DATE",
    help="Date of the version, UTC unless it has a time zone (default: the start of the run).",
)
@options.store_option
def record(
    *, run: str, reference: str | None, label: str | None, date: datetime | None, store: Path
) -> None:
    """Add the ratios of RUN (an id, its beginning, or `latest`) to the histories of the store.

    Each metric has a series in each group (the levels of all factors but the compared one). Points
    are ordered by date, then by the time of recording. An imported run must be named by its full
    id; its points go into separate series.
    """
    found = use_case.record(store, run, reference=reference, label=label, date=date)
    for clause in found.left_out:
        err.print(f"left out: {clause}")
    labels = ", ".join(dict.fromkeys(point.label for _, point in found.part.points))
    recorded = found.recorded
    if not (recorded.added or recorded.replaced or recorded.present):
        raise UserError(
            f"run {found.run} was not recorded: version {labels} already has "
            f"{_points_of_others(recorded)}",
            hint="record it under another --label, or remove those points with `millrace history "
            f"forget {next(iter(recorded.taken))}`",
        )
    if recorded.present:
        points = counted(recorded.present, "point")
        text = f"run {found.run} is recorded already, with {points} of {labels}: nothing to do"
    else:
        text = f"recorded {labels}: {counted(recorded.added, 'new point')}"
    if recorded.replaced:
        text += f", {counted(recorded.replaced, 'point')} updated with this run's new blocks"
    err.print(text)
    if recorded.taken:
        err.print(f"unchanged: {_points_of_others(recorded)}")


def _points_of_others(recorded: Recorded) -> str:
    """Return text such as ``3 points from run a, 1 point from run b``."""
    runs = (f"{counted(n, 'point')} from run {run_id}" for run_id, n in recorded.taken.items())
    return ", ".join(runs)


@command.command("detect", short_help="Find versions at which the level of a series changed.")
@options.series_option
@options.sensitivity_option("changes")
@options.store_option
def detect(*, series: tuple[str, ...], sensitivity: Sensitivity, store: Path) -> None:
    """Find versions at which the level of a series changed.

    A change is a candidate until it is confirmed, and keeps its id when it is found again. Points
    from different environments are never compared.
    """
    found = use_case.detect(store, series, sensitivity=sensitivity)
    n_series = len(found.examined)
    points = counted(sum(found.examined.values()), "point")
    of = f"{points} in {counted(n_series, 'series', 'series')}, {counted(found.breaks, 'break')}"
    apart = f", {found.imported} of them imported" if found.imported else ""
    out.print(f"{of}{apart}; sensitivity {sensitivity}")
    if found.changes:
        others = [each for each in found.changes if not each.is_open]
        table = history.changes_table(group_changes(found.changes, found.series_with), others)
        if table is not None:
            out.print()
            show_table(table, out)
            _show_next_step(found.changes)
        if found.too_few:
            out.print(history.too_few(found.too_few))
    else:
        out.print()
        out.print(history.nothing_moved(n_series, found.too_few))
    if found.lost:
        was = "candidate was" if found.lost == 1 else "candidates were"
        out.print(f"{found.lost} earlier {was} withdrawn: the series no longer shows it.")


def _show_next_step(changes: Sequence[ChangeView]) -> None:
    step = history.next_step(changes)
    if step is not None:
        out.print()
        out.print(step)


@command.command("show", short_help="Show series, their changes, and the states of changes.")
@options.series_option
@click.option(
    "--html",
    "html_file",
    type=options.OUTPUT_FILE,
    metavar="FILE",
    help="Write a page with a chart of each series.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options.store_option
def show(*, series: tuple[str, ...], html_file: Path | None, as_json: bool, store: Path) -> None:
    """Show series, their changes, and the states of changes.

    A point is a ratio to the reference of its series; a change is new level / old level. Only a
    confirmed change is certain.
    """
    with use_case.histories(store, series) as found:
        if not as_json and html_file is None:
            _show_series(found)
            return
        shown = list(found.series())
        changed = found.groups([each for one in shown for each in one.changes])
        if html_file is not None:
            written = write_text(html_file, history.as_html(shown, changed), PAGE, option="--html")
            err.print(f"page: {written}")
        if as_json:
            echo(history.as_json(shown, changed, found.store.histories.states()))


def _show_series(histories: HistoriesView) -> None:
    """Print one series at a time, so that the points of only one are in memory."""
    rows: list[Row] = []
    changes: list[ChangeView] = []
    broken: list[EnvironmentChange] = []
    unexamined = 0
    for each in histories.series():
        rows.append(history.series_row(each))
        changes += each.changes
        unexamined += each.unexamined > 0
        broken += each.environment_changes
    show_table(history.series_table(rows), out)
    for line in history.break_lines(broken):
        out.print(line)
    table = history.changes_table(histories.groups(changes), [c for c in changes if not c.is_open])
    if table is not None:
        out.print()
        show_table(table, out)
        for change in changes:
            if change.change.remeasured or change.change.note or change.change.reason:
                out.print()
                _show_change(change)
    _show_next_step(changes)
    if unexamined:
        of = counted(unexamined, "series has", "series have")
        out.print(f"{of} new points: `millrace history detect` looks for changes.")


def _show_change(shown: ChangeView) -> None:
    out.print(f"{shown.change.id} of {shown.name}")
    for line in history.change_lines(shown):
        out.print(f"  {line}")


@command.command("confirm", short_help="Measure the builds before and after a change again.")
@click.argument("change")
@click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Number of blocks (default: as many as a change of this size needs).",
)
@options.store_option
def confirm(*, change: str, blocks: int | None, store: Path) -> None:
    """Measure the builds before and after CHANGE (the beginning of its id) again, interleaved.

    The result confirms or withdraws the change. If it is inconclusive, the change stays a
    candidate, and the same command adds blocks. The same trials also confirm or withdraw changes of
    other metrics that they measure.
    """
    # Imported on use: loading the code that measures takes longer than the other commands run.
    from millrace.app import confirm as confirming  # noqa: PLC0415

    with calling() as caller:
        found = confirming.confirm(store, change, caller, blocks=blocks)
    for each in found.changes:
        _show_change(each)
    first = found.outcomes[0]
    again = first.change.remeasured
    if first.change.state == "candidate" and again is not None:
        out.print(f"{first.change.id} stays a candidate: {again.reason}")
        if first.more_blocks:
            more = counted(first.more_blocks, "block")
            option = f"--blocks {found.blocks + first.more_blocks}"
            out.print(
                f"about {more} more would decide: "
                f"`millrace history confirm {first.change.id} {option}`"
            )


@command.command("acknowledge", short_help="Add a note to a change.")
@click.argument("change")
@click.option(
    "--note",
    required=True,
    help="A note on the change: who looked at it, its cause, or where it is fixed.",
)
@options.store_option
def acknowledge(*, change: str, note: str, store: Path) -> None:
    """Add a note to CHANGE: the beginning of its id, or a label for all changes of that version.

    The state stays the same: a candidate is still a candidate, a confirmed change still confirmed.
    """
    changes = use_case.acknowledge(store, change, note)
    for each in changes:
        err.print(f"acknowledged {each.id} at {each.label}")
    if len(changes) > 1:
        err.print(f"{counted(len(changes), 'change')} at {change}")


@command.command("forget", short_help="Remove a run's points.")
@click.argument("run")
@options.store_option
def forget(*, run: str, store: Path) -> None:
    """Remove the points of RUN (the beginning of its id) from all histories.

    Use it if the label was wrong or the run was disturbed. The run itself stays in the store.
    """
    run_id, points = use_case.forget(store, run)
    err.print(f"removed {counted(points, 'point')} of run {run_id}")
