"""``millrace analyze``: verdicts on numbers that were measured elsewhere."""

from __future__ import annotations

import click

from millrace.cli.lazy_group import LazyGroup

COMMANDS = {
    "paired": "Compare treatments that were interleaved in blocks.",
    "series": "Find where the level of a series moved.",
    "import": "Convert the output of another benchmark for `analyze paired`.",
}


@click.group("analyze", cls=LazyGroup, described=COMMANDS, prefix="analyze_")
def command() -> None:
    """Analyze numbers of any benchmark.

    The verdicts are those of `millrace run`, without trials of millrace.
    """
