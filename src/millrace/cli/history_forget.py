"""``millrace history forget``: remove a run's points from histories."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.app import history as use_case
from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.report.common.formatting import counted


@click.command("forget")
@click.argument("run")
@store_option
def command(*, run: str, store: Path) -> None:
    """Remove the points of RUN (the beginning of its id) from all histories.

    Use it for a wrong label or a disturbed run. The run itself stays in the store.
    """
    forgotten = use_case.forget(store, run)
    points = counted(forgotten.points, "point")
    err.print(f"removed {points} of run {forgotten.run}", markup=False)
