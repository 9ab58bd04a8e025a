"""``millrace analyze``: verdicts on numbers that were measured elsewhere."""

from __future__ import annotations

import click

from millrace.cli.lazy_group import LazyGroup

COMMANDS = {
    "paired": "Compare treatments that took turns in blocks.",
    "series": "Find where the level of a series moved.",
    "import": "Make a file for `analyze paired` of what another benchmark wrote.",
}


@click.group("analyze", cls=LazyGroup, described=COMMANDS, prefix="analyze_")
def command() -> None:
    """Analyze numbers that any benchmark measured: the same verdicts, without trials of
    millrace."""
