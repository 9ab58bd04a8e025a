"""``millrace history record``: add a run's ratios to histories."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from millrace.app import history as use_case
from millrace.app.history import RecordedRun
from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.errors import UserError
from millrace.report.common.formatting import counted
from millrace.store.history_records import Recorded

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
                found = datetime.strptime(str(value), form)  # noqa: DTZ007 (app.history knows the zone)
        if found is None:
            like = "2026-05-01 or 2026-05-01T02:00:00+02:00"
            self.fail(f"{value!r} is no date such as {like}.", param, ctx)
        return found


@click.command("record")
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
    type=Date(),
    metavar="DATE",
    help="Its date, in UTC without a zone (default: the start of the run).",
)
@store_option
def command(
    *, run: str, reference: str | None, label: str | None, date: datetime | None, store: Path
) -> None:
    """Add the ratios of RUN (an id, its beginning, or `latest`) to the histories of the store.

    Each metric is a series, in each group of the experiment (the levels of all factors but the
    compared one). Points are in the order of their dates, then in that of recording.
    """
    found = use_case.record(store, run, reference=reference, label=label, date=date)
    for clause in found.left_out:
        err.print(f"left out: {clause}", markup=False)
    _show(found)


def _show(found: RecordedRun) -> None:
    labels, recorded = ", ".join(found.labels), found.recorded
    if not (recorded.added or recorded.replaced or recorded.present):
        raise UserError(
            f"nothing was recorded of run {found.run}: {labels} {_of_others(recorded)}",
            hint="give it another --label, or remove the other run with `millrace history "
            f"forget {next(iter(recorded.taken))}`",
        )
    if recorded.present:
        points = counted(recorded.present, "point")
        text = f"run {found.run} is recorded already, with {points} of {labels}: nothing to do"
    else:
        text = f"recorded {labels}: {counted(recorded.added, 'new point')}"
    if recorded.replaced:
        text += f", {counted(recorded.replaced, 'point')} of this run with its new blocks"
    err.print(text, markup=False)
    if recorded.taken:
        err.print(f"unchanged: what {_of_others(recorded)}", markup=False)


def _of_others(recorded: Recorded) -> str:
    """``has 3 points of run a, 2 of run b``."""
    runs = (f"{number} of run {run_id}" for run_id, number in recorded.taken.items())
    return f"has points already: {', '.join(runs)}"
