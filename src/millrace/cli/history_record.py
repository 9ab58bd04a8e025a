"""``millrace history record``: add a run's ratios to histories."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from millrace.analysis.history.recording import points_of
from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.errors import UserError
from millrace.report.common.formatting import counted
from millrace.store.history_records import HistoryPart, Recorded
from millrace.store.store import Store
from millrace.utc import utc_text

_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S %z")


class Date(click.ParamType[datetime]):
    """A date, or a time as ISO 8601 and git write it."""

    name = "date"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        found = None
        for form in _DATES:
            with suppress(ValueError):
                found = datetime.strptime(str(value), form)  # noqa: DTZ007 (_utc knows the zone)
        if found is None:
            like = "2026-05-01 or 2026-05-01T02:00:00+02:00"
            self.fail(f"{value!r} is no date such as {like}.", param, ctx)
        return found


@click.command("record")
@click.argument("run")
@click.option("--reference", metavar="LEVEL", help="The level all ratios are to; the run's base.")
@click.option("--label", metavar="VERSION", help="Version or commit; the level's name unless said.")
@click.option(
    "--date",
    "date",
    type=Date(),
    metavar="DATE",
    help="Its date (UTC unless it says otherwise); when the run began unless said.",
)
@store_option
def command(
    *, run: str, reference: str | None, label: str | None, date: datetime | None, store: Path
) -> None:
    """Add the ratios of RUN (an id, its beginning, or `latest`) to the histories of the store.

    Each metric is a series, in each group of the experiment (the levels of all factors but the
    compared one). Points are in the order of their dates, then in that of recording.
    """
    with Store.open(store, create=False) as opened:
        stored = opened.load_run(opened.find_run(run).id, observations_too=True)
        at_utc = stored.run.created_utc if date is None else _utc(date)
        drawn = points_of(stored, reference=reference, label=label, at_utc=at_utc)
        recorded = opened.histories.record(drawn.part)
    for clause in drawn.left_out:
        err.print(f"left out: {clause}", markup=False)
    _tell(stored.run.id, drawn.part, recorded)


def _utc(date: datetime) -> str:
    return utc_text(date.replace(tzinfo=UTC) if date.tzinfo is None else date)


def _tell(run_id: str, part: HistoryPart, recorded: Recorded) -> None:
    labels = ", ".join(dict.fromkeys(point.label for _, point in part.points))
    if not (recorded.added or recorded.replaced or recorded.present):
        raise UserError(
            f"nothing was recorded of run {run_id}: {labels} {_of_others(recorded)}",
            hint="give it another --label, or take the other run out with `millrace history "
            f"forget {next(iter(recorded.taken))}`",
        )
    if recorded.present:
        points = counted(recorded.present, "point")
        text = f"run {run_id} is recorded already, with {points} of {labels}: nothing to do"
    else:
        text = f"recorded {labels}: {counted(recorded.added, 'new point')}"
    if recorded.replaced:
        text += f", {counted(recorded.replaced, 'point')} of this run with its new blocks"
    err.print(text, markup=False)
    if recorded.taken:
        err.print(f"left as it is: what {_of_others(recorded)}", markup=False)


def _of_others(recorded: Recorded) -> str:
    """``has 3 points of run a, 2 of run b``."""
    runs = (f"{number} of run {run_id}" for run_id, number in recorded.taken.items())
    return f"has points already: {', '.join(runs)}"
