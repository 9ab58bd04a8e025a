"""Change points of numbers that were measured elsewhere: table, sentences, JSON."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from millrace.analysis.history.series_verdicts import AnalyzedPoint, AnalyzedSeries, Outcome
from millrace.model.measurements import Direction
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.json_parts import JsonPart, part
from millrace.report.common.tables import Column, Row, Section, Table, text_columns
from millrace.report.counts import change_sentence
from millrace.stats.change_points import FEWEST_TO_TELL

_MOST_NAMED = 5
TOO_FEW = f"too few points to tell whether a level moved: {FEWEST_TO_TELL} are needed"


class Origin(NamedTuple):
    """The unit and margin of a series, what its better direction rests on, and its order.

    ``is_sorted`` says that its rows were not in the order of their times.
    """

    unit: str
    direction_from: str
    margin: float
    is_sorted: bool


class SeriesPart(JsonPart):
    """A series of ``points`` values; ``direction`` is the better one.

    ``is_sorted``: its rows were brought into the order of their times.
    """

    name: str
    unit: str
    direction: Direction
    direction_from: str
    margin: float
    points: int
    is_sorted: bool
    outcome: Outcome


class SeriesDocument(JsonPart):
    """Series and their change points; ratios are new level / old level.

    ``margin`` is None where those of the series differ.
    """

    margin: float | None
    alpha: float
    fewest_points: int
    series: list[SeriesPart]
    changes: list[AnalyzedPoint]


def table(points: Sequence[AnalyzedPoint], alpha: float) -> Table:
    """Return a row a change point, under its series, whose points follow each other."""
    titles = ("index", "ratio", f"{(1 - alpha) * 100:g} % interval")
    others = (*map(Column, titles), Column("change", drop=1), *text_columns("verdict"))
    sections = tuple(
        Section(name, tuple(map(_row, of_series)))
        for name, of_series in groupby(points, key=attrgetter("series"))
    )
    return Table("change points", (*text_columns("first point"), *others), sections)


def sentences(judged: Sequence[AnalyzedSeries]) -> list[str]:
    """Return what was found and what to do, then why other series have no change points."""
    by_outcome: dict[Outcome, list[str]] = {}
    for each in judged:
        by_outcome.setdefault(each.outcome, []).append(each.name)
    lines = []
    if n_found := sum(len(each.points) for each in judged):
        found = counted(n_found, "candidate")
        lines.append(f"{found}: measure before and after again, in turns, to confirm.")
    reasons: tuple[tuple[Outcome, str, str, str], ...] = (
        ("trend", "follows", "follow", "a trend, with no levels to compare"),
        ("too few points", "has", "have", TOO_FEW),
    )
    for outcome, does, do, why in reasons:
        if names := by_outcome.get(outcome):
            which = f": {named(names)}" if named(names) else ""
            of = counted(len(names), f"series {does}", f"series {do}")
            lines.append(f"{of} {why}{which}.")
    if not n_found and "not moved" in by_outcome:
        others = len(by_outcome) > 1
        lines.append("The other levels did not move." if others else "The level did not move.")
    return lines


def sorted_sentence(names: Sequence[str], n_series: int) -> str | None:
    """Return the sentence on the series that were sorted, by their names; None without any."""
    if not names:
        return None
    of = "" if len(names) == n_series else f" of {named(names)}"
    return f"The rows{of} were not in the order of their times; they are sorted by time here."


def named(names: Sequence[str]) -> str:
    """Return the first few names; a series may have none."""
    return ", ".join(filter(None, names[:_MOST_NAMED])) + ", ..." * (len(names) > _MOST_NAMED)


def counts_sentences(judged: Sequence[AnalyzedSeries]) -> list[str]:
    """Return what the change points of counted instructions mean, a sentence each."""
    return [
        f"{f'{point.series}, ' if point.series else ''}from {point.label} on: "
        f"{change_sentence(point.ratio, point.low, point.high)}."
        for each in judged
        for point in each.points
    ]


def as_json(
    judged: Sequence[AnalyzedSeries],
    origins: Sequence[Origin],
    *,
    margin: float | None,
    alpha: float,
) -> dict[str, Any]:
    """Return series and change points, and for each series where its criteria come from."""
    document = SeriesDocument(
        margin=margin,
        alpha=alpha,
        fewest_points=FEWEST_TO_TELL,
        series=[
            part(SeriesPart, each, **origin._asdict(), points=each.n_points)
            for each, origin in zip(judged, origins, strict=True)
        ],
        changes=[point for each in judged for point in each.points],
    )
    return document.model_dump(mode="json")


def _row(point: AnalyzedPoint) -> Row:
    cells = (
        point.label,
        f"{point.index}",
        formatting.ratio_text(point.ratio),
        formatting.interval_text(point.low, point.high),
        formatting.change_text(point.ratio),
        f"{formatting.GLYPHS[point.verdict]} {point.verdict}",
    )
    return Row(cells, point.verdict)
