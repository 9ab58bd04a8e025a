"""``millrace history acknowledge``: a change that somebody knows of."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.app import history as use_case
from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.report.common.formatting import counted


@click.command("acknowledge")
@click.argument("change")
@click.option("--note", required=True, help="Who knows of it, its reason, or where it is fixed.")
@store_option
def command(*, change: str, note: str, store: Path) -> None:
    """Note that somebody knows of CHANGE: the beginning of an id, or a label, for all its changes.

    Its state does not change: it stays a candidate or a confirmed change.
    """
    changes = use_case.acknowledge(store, change, note)
    for each in changes:
        err.print(f"acknowledged {each.id} at {each.label}", markup=False)
    if len(changes) > 1:
        err.print(f"{counted(len(changes), 'change')} at {change}", markup=False)
