"""Histories as one HTML file: a chart of each series, no network, no script."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millrace import __version__
from millrace.analysis.history.overview import ChangeGroup, ChangeView, SeriesView
from millrace.analysis.history.segments import segments
from millrace.levels import level_text
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.charts import Line, LineChart, LogAxis, Mark, Tick, path_text
from millrace.report.common.pages import environment
from millrace.report.history import tables
from millrace.store.history_records import PointRecord, SeriesRecord


def as_html(series: Sequence[SeriesView], groups: Sequence[ChangeGroup]) -> str:
    """Return the whole page as text."""
    changes = [change for one in series for change in one.changes]
    points = [point for one in series for point in one.points]
    breaks = [each for one in series for each in one.environment_changes]
    template = environment(()).get_template("history.html.j2")
    return template.render(
        version=__version__,
        series=[_section(one) for one in series],
        points=counted(len(points), "point"),
        newest=max((point.at_utc for point in _local(points) or points), default=""),
        answer=_answer(groups, changes, series),
        next_step=tables.next_step(changes),
        changes=tables.changes_table(groups, [each for each in changes if not each.is_open]),
        environment_changes=tables.break_lines(breaks),
        glyphs=formatting.GLYPHS,
        counted=counted,
    )


def _local(points: Sequence[PointRecord]) -> list[PointRecord]:
    return [point for point in points if point.origin == "local"]


def _answer(
    groups: Sequence[ChangeGroup], changes: Sequence[ChangeView], series: Sequence[SeriesView]
) -> str:
    n_too_few = sum(one.too_few_points for one in series)
    if not groups:
        return tables.nothing_moved(len(series), n_too_few)
    largest, origin = tables.group_text(groups[0]), groups[0].origin
    facts = any(c.change.state == "confirmed" for c in changes if c.series.origin == origin)
    more = f"; {counted(len(groups) - 1, 'more place')} below" if len(groups) > 1 else ""
    known = "" if facts else ". Nothing of it is confirmed yet"
    few = f" {tables.too_few(n_too_few)}" if n_too_few else ""
    return f"{largest}{more}{known}.{few}"


def _section(seen: SeriesView) -> dict[str, Any]:
    series = seen.series
    better = "above" if series.direction == "higher" else "below"
    return {
        "id": series.id,
        "name": seen.name,
        "subtitle": (
            f"{series.title} relative to {level_text(series.factor, series.reference)}, {better} 1 "
            f"is better; {counted(len(seen.points), 'point')}{_measured_elsewhere(series)}"
        ),
        "chart": history_chart(seen),
        "environment_changes": tuple(tables.break_lines(seen.environment_changes)),
        "changes": tuple("; ".join(tables.change_lines(change)) for change in seen.changes),
    }


def _measured_elsewhere(series: SeriesRecord) -> str:
    return "" if series.origin == "local" else ", imported: nothing of it was measured here"


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
    axis = LogAxis.around(points, margin)
    places = [100 * (number + 0.5) / len(points) for number in range(len(points))]
    reference = level_text(seen.series.factor, seen.series.reference)
    chart = axis.chart(
        margin,
        heading="",
        description=(
            f"{seen.name}: {seen.series.title} relative to {reference}, "
            f"{counted(len(points), 'point')} in their order"
        ),
        across=(
            Tick(places[index], _short(points[index].label))
            for index in range(0, len(points), -(-len(points) // _MOST_LABELS))
        ),
        lines=(
            _line(number, segment, points, places, axis)
            for number, segment in enumerate(segments(points))
        ),
    )
    edge = 50 / len(points)  # halfway to the point before
    breaks = tuple(
        Marker(places[each.index] - edge, "break", "break", f"break at {each.label}: {why}")
        for each in seen.environment_changes
        for why in ["; ".join(each.changes)]
    )
    changes = tuple(
        Marker(
            places[each.index] - edge,
            f"{tables.state_glyph(each)} {each.change.state}",
            tables.state_style(each),
            f"{tables.state_text(each)} at {tables.place_text(each)}: "
            f"{formatting.change_text(each.ratio)}, "
            f"{formatting.interval_text(each.low, each.high)}",
        )
        for each in seen.changes
        if each.index is not None
    )
    return HistoryChart(chart, breaks, changes)


def _line(
    number: int,
    segment: Sequence[int],
    points: Sequence[PointRecord],
    places: Sequence[float],
    axis: LogAxis,
) -> Line:
    marks = tuple(_mark(points[index], places[index], axis) for index in segment)
    pieces = (path_text((mark.x, mark.y) for mark in marks),) if len(marks) > 1 else ()
    of = f"state {number + 1}: {points[segment[0]].label} to {points[segment[-1]].label}"
    return Line(number, of, marks, pieces)


def _mark(point: PointRecord, x: float, axis: LogAxis) -> Mark:
    interval = (
        f" ({formatting.interval_text(point.low, point.high)})" if point.low is not None else ""
    )
    title = (
        f"{point.label}, {point.at_utc[:10]}: {formatting.ratio_text(point.ratio)}{interval}, "
        f"{counted(point.n_blocks, 'block')}"
    )
    return axis.mark(x, point, title)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
