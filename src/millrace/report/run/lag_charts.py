"""Draw a replica's lag over time, where it was attached before its source was loaded."""

from collections.abc import Iterable, Sequence

from millrace.analysis.compare.model import Group
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import level_text
from millrace.report.common.charts import MOST_LINES, Line, LineChart, Mark, Tick, linear_ticks
from millrace.report.common.formatting import latency_text

_SHORTEST_S = 1e-6
_MOST_MARKS = 24  # of a line, so that they are distinct
_MOST_POINTS = 2000  # of a line: more than a screen has, and a page has several


def lag_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return a chart of the lag for each group of at most ``MOST_LINES`` treatments."""
    charts = []
    for group in groups:
        lagging = [treatment for treatment in group.treatments if treatment.lag]
        if lagging and len(lagging) <= MOST_LINES:
            charts.append(_chart(group, lagging, factor))
    return tuple(charts)


def _chart(group: Group, lagging: Sequence[TreatmentAnalysis], factor: str) -> LineChart:
    width_s = _extent_s(t_s for each in lagging for t_s, _ in each.lag)
    height_s = _extent_s(lag_s for each in lagging for _, lag_s in each.lag)
    return LineChart(
        heading=group.label,
        description=f"{group.label}: lag of the replica over time",
        across=tuple(Tick(100 * at / width_s, f"{at:g} s") for at in linear_ticks(width_s)),
        up=tuple(Tick(100 - 100 * at / height_s, f"{at:g} s") for at in linear_ticks(height_s)),
        band=None,
        one=None,
        lines=tuple(
            _line(number, each, factor, scale=(width_s, height_s))
            for number, each in enumerate(lagging)
        ),
    )


def _extent_s(values_s: Iterable[float]) -> float:
    """Return the length of an axis, at least as long as millrace tells times apart."""
    longest_s = max(values_s)
    return longest_s if longest_s >= _SHORTEST_S else 1.0


def _line(
    number: int, treatment: TreatmentAnalysis, factor: str, *, scale: tuple[float, float]
) -> Line:
    label = level_text(factor, treatment.level)
    points = [
        (100 * t_s / scale[0], 100 - 100 * lag_s / scale[1], t_s, lag_s)
        for t_s, lag_s in _peaks(treatment.lag)
    ]
    stride = max(1, -(-len(points) // _MOST_MARKS))
    marks = tuple(
        Mark(x, y, None, None, f"{label}, {t_s:.1f} s: {latency_text(lag_s)} behind")
        for x, y, t_s, lag_s in points[::stride]
    )
    return Line(number, label, marks, (" ".join(f"{x:.2f},{y:.2f}" for x, y, *_ in points),))


def _peaks(lag: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a line: the greatest lag of each group of equally many neighbours."""
    stride = -(-len(lag) // _MOST_POINTS) or 1
    parts = (lag[start : start + stride] for start in range(0, len(lag), stride))
    return [max(part, key=lambda point: point[1]) for part in parts]
