"""A chart of a series: its points with their intervals by version, breaks, and changes.

Positions are percentages of the chart's width and height, as in ``line_charts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.analysis.history.overview import SeriesView
from millrace.analysis.history.segments import segments
from millrace.levels import level_text
from millrace.report.common.axis import LogAxis, Tick
from millrace.report.common.formatting import change_text, counted, interval_text, ratio_text
from millrace.report.common.line_chart import Line, LineChart, Mark
from millrace.report.history.tables import place_text, state_glyph, state_style, state_text
from millrace.stats import RatioEstimate
from millrace.store.history_records import PointRecord

_MOST_LABELS = 8
_LONGEST_LABEL = 16  # characters of a label below the axis


@dataclass(frozen=True)
class Marker:
    """A line across the chart at ``x`` with its text and style; ``title`` says it in words."""

    x: float
    text: str
    style: str
    title: str


@dataclass(frozen=True)
class HistoryChart:
    """A series' points as lines, one for each environment; the band is the margin."""

    chart: LineChart
    environment_changes: tuple[Marker, ...]
    changes: tuple[Marker, ...]


def history_chart(seen: SeriesView) -> HistoryChart:
    """Return the chart of a series that has at least one point."""
    points, margin = seen.points, seen.series.margin
    axis = LogAxis.around([_estimate(point) for point in points], margin)
    places = [100 * (number + 0.5) / len(points) for number in range(len(points))]
    reference = level_text(seen.series.factor, seen.series.reference)
    lines = tuple(
        _line(number, strand, points, places, axis)
        for number, strand in enumerate(segments(points))
    )
    chart = LineChart(
        heading="",
        description=(
            f"{seen.name}: {seen.series.title} relative to {reference}, "
            f"{counted(len(points), 'point')} in their order"
        ),
        across=_ticks(points, places),
        up=tuple(Tick(100 - tick.at, tick.label) for tick in axis.ticks()),
        band=(100 - axis.at(1 + margin), 100 - axis.at(1 / (1 + margin))),
        one=100 - axis.at(1.0),
        lines=lines,
    )
    edge = 50 / len(points)  # halfway to the point before
    breaks = tuple(
        Marker(
            places[each.index] - edge,
            "break",
            "break",
            f"break at {each.label}: {'; '.join(each.changes)}",
        )
        for each in seen.environment_changes
    )
    changes = tuple(
        Marker(
            places[each.index] - edge,
            f"{state_glyph(each)} {each.change.state}",
            state_style(each),
            f"{state_text(each)} at {place_text(each)}: {change_text(each.ratio)}, "
            f"{interval_text(each.low, each.high)}",
        )
        for each in seen.changes
        if each.index is not None
    )
    return HistoryChart(chart, breaks, changes)


def _estimate(point: PointRecord) -> RatioEstimate:
    return RatioEstimate(point.ratio, point.low, point.high, point.n_blocks, 0.95, point.log_sd)


def _line(
    number: int,
    strand: Sequence[int],
    points: Sequence[PointRecord],
    places: Sequence[float],
    axis: LogAxis,
) -> Line:
    marks = tuple(_mark(points[index], places[index], axis) for index in strand)
    pieces = (" ".join(f"{mark.x:.2f},{mark.y:.2f}" for mark in marks),) if len(marks) > 1 else ()
    of = f"state {number + 1}: {points[strand[0]].label} to {points[strand[-1]].label}"
    return Line(number, of, marks, pieces)


def _mark(point: PointRecord, x: float, axis: LogAxis) -> Mark:
    interval = f" ({interval_text(point.low, point.high)})" if point.low is not None else ""
    return Mark(
        x=x,
        y=100 - axis.at(point.ratio),
        low_y=None if point.low is None else 100 - axis.at(point.low),
        high_y=None if point.high is None else 100 - axis.at(point.high),
        title=(
            f"{point.label}, {point.at_utc[:10]}: {ratio_text(point.ratio)}{interval}, "
            f"{counted(point.n_blocks, 'block')}"
        ),
    )


def _ticks(points: Sequence[PointRecord], places: Sequence[float]) -> tuple[Tick, ...]:
    stride = -(-len(points) // _MOST_LABELS)
    return tuple(
        Tick(places[index], _short(points[index].label)) for index in range(0, len(points), stride)
    )


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
