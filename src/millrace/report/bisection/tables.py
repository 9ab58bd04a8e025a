"""The table of a search for a change: a row a server."""

from __future__ import annotations

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.report.common.formatting import (
    MISSING,
    percent_text,
    value_text,
)
from millrace.report.common.tables import Column, Row, Section, Table


def members_table(found: Bisection) -> Table:
    """Return a row a server, in the order of the list."""
    columns = (
        Column("server", numeric=False),
        Column(found.metric.unit),
        Column("trials"),
        Column("first of the new level"),
        Column("", numeric=False, drop=1),
    )
    rows = tuple(
        Row(
            (
                member.name,
                MISSING if member.level is None else value_text(member.level, found.metric),
                str(len(member.values)),
                MISSING if member.probability is None else percent_text(member.probability),
                mark(found, place) or member.skipped,
            )
        )
        for place, member in enumerate(found.members)
    )
    return Table(found.metric.title, columns, (Section("", rows),))


def mark(found: Bisection, place: int) -> str:
    """Return the mark of a server: an end of the list, or the change."""
    step = change_found(found)
    if step is not None and place == step.last:
        return "◂ the change"
    return {0: "good", len(found.members) - 1: "bad"}.get(place, "")
