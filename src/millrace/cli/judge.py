"""``millrace judge``: verdicts on numbers that were measured elsewhere."""

from __future__ import annotations

import click

from millrace.cli.lazy_group import LazyGroup

COMMANDS = {
    "pairs": "Compare treatments that took turns in blocks.",
    "history": "Find where the level of a series moved.",
    "import": "Make a file for `judge pairs` of what another benchmark wrote.",
}


@click.group("judge", cls=LazyGroup, described=COMMANDS, prefix="judge_")
def command() -> None:
    """Judge numbers that any benchmark measured: the same verdicts, without trials of millrace."""
