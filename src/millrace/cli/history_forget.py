"""``millrace history forget``: take a run's points out of histories."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.errors import UserError
from millrace.report.common.formatting import counted
from millrace.store.store import Store


@click.command("forget")
@click.argument("run")
@store_option
def command(*, run: str, store: Path) -> None:
    """Take the points of RUN (the beginning of its id) out of all histories.

    For a wrong label, or a run that was disturbed. The run itself stays; it may be removed already.
    """
    with Store.open(store, create=False) as opened:
        known = opened.histories.runs()
        found = [run_id for run_id in known if run_id == run] or [
            run_id for run_id in known if run_id.startswith(run)
        ]
        if len(found) != 1:
            shown = ", ".join((found or list(known))[-8:]) or "none"
            which = f"{len(found)} recorded runs have" if found else "no recorded run has"
            raise UserError(
                f"{store}: {which} an id that starts with {run!r}",
                hint=f"those that are recorded: {shown}",
            )
        number = opened.histories.forget(found[0])
    err.print(f"took {counted(number, 'point')} of run {found[0]} out", markup=False)
