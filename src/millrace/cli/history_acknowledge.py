"""``millrace history acknowledge``: a change that somebody knows of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from millrace.cli.console import err
from millrace.cli.store_option import store_option
from millrace.errors import UserError
from millrace.report.common.formatting import counted
from millrace.store.history_records import ChangeRecord
from millrace.store.store import Store


@click.command("acknowledge")
@click.argument("change")
@click.option("--note", required=True, help="Who knows of it, why it is so, or where it is fixed.")
@store_option
def command(*, change: str, note: str, store: Path) -> None:
    """Note that somebody knows of CHANGE: the beginning of an id, or a label, for all its changes.

    What it is stays as it is: a candidate or a fact.
    """
    if not note.strip():
        raise UserError("the note is empty", hint="say who knows of it, or where it is fixed")
    with Store.open(store, create=False) as opened:
        changes = _named(opened, change)
        opened.histories.keep([replace(each, note=note.strip()) for each in changes])
    for each in changes:
        err.print(f"acknowledged {each.id} at {each.label}", markup=False)
    if len(changes) > 1:
        err.print(f"{counted(len(changes), 'change')} at {change}", markup=False)


def _named(store: Store, wanted: str) -> list[ChangeRecord]:
    at_label = [each for each in store.histories.changes() if each.label == wanted]
    return at_label or [store.histories.find_change(wanted)]
