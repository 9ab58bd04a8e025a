"""Change points of numbers that were measured elsewhere: table, sentence, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Any

from millrace.analysis.judged_points import JudgedPoint
from millrace.report.formatting import GLYPHS, change_text, counted, interval_text, ratio_text
from millrace.report.tables import Column, Row, Section, Table

_MOST_NAMED = 5


def table(points: Sequence[JudgedPoint], alpha: float) -> Table:
    """A row a change point, under its series, whose points follow each other."""
    columns = (
        Column("first point", numeric=False),
        Column("index"),
        Column("ratio"),
        Column(f"{(1 - alpha) * 100:g} % interval"),
        Column("change", drop=1),
        Column("verdict", numeric=False),
    )
    sections = tuple(
        Section(name, tuple(map(_row, of_series)))
        for name, of_series in groupby(points, key=attrgetter("series"))
    )
    return Table("change points", columns, sections)


def sentence(points: Sequence[JudgedPoint]) -> str:
    """What is to be done about them."""
    found = counted(len(points), "candidate")
    return f"{found}: measure before and after again, in turns, to confirm."


def trends_sentence(names: Sequence[str]) -> str:
    """Why nothing is told of these series; a single one may have no name."""
    does = "follows a trend" if len(names) == 1 else "follow a trend"
    which = ", ".join(filter(None, names[:_MOST_NAMED])) + ", ..." * (len(names) > _MOST_NAMED)
    of = counted(len(names), "series", "series")
    return f"{of} {does}, with no levels to compare{which and f': {which}'}."


def as_json(points: Sequence[JudgedPoint]) -> list[dict[str, Any]]:
    """The change points; ratios are new level / old level."""
    return [asdict(point) for point in points]


def _row(point: JudgedPoint) -> Row:
    cells = (
        point.label,
        f"{point.index}",
        ratio_text(point.ratio),
        interval_text(point.low, point.high),
        change_text(point.ratio),
        f"{GLYPHS[point.verdict]} {point.verdict}",
    )
    return Row(cells, point.verdict)
