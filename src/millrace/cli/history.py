"""``millrace history``: performance from version to version, and where it changed."""

from __future__ import annotations

import click

from millrace.cli.lazy_group import LazyGroup

COMMANDS = {
    "record": "Add a run's ratios to a reference build.",
    "detect": "Look for versions at which a series changed its level.",
    "show": "Show series, their changes, and what became of them.",
    "confirm": "Measure the builds before and after a change again.",
    "acknowledge": "Note that somebody knows of a change.",
    "forget": "Remove a run's points.",
}


@click.group("history", cls=LazyGroup, described=COMMANDS, prefix="history_")
def command() -> None:
    """Watch performance from version to version.

    A point is a version's ratio to a reference build that was measured in the same blocks. Where
    the level of a series moves there is a candidate, which only a measurement of its own confirms.
    """
