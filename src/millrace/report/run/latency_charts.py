"""Latency of transactions by percentile, base and candidates in one chart, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.model import Group
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.levels import level_text
from millrace.report.common.axis import Tick
from millrace.report.common.formatting import latency_text
from millrace.report.common.line_chart import MOST_LINES, Line, LineChart, Mark

_PERCENTS = (10, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999)


def latency_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return latency of transactions by percentile: a chart a group, a line a treatment.

    A group without latencies, or of more treatments than can be told apart, has none.
    """
    charts = []
    for group in groups:
        found = [(t, latency) for t in group.treatments if (latency := latency_of(t)) is not None]
        if found and len(found) <= MOST_LINES:
            charts.append(_latency_chart(group, found, factor))
    return tuple(charts)


def latency_of(treatment: TreatmentAnalysis) -> Latency | None:
    """Return the latencies of a treatment's first transaction; response time where there is."""
    of_transactions = [latency for latency in treatment.latencies if latency.of == "transaction"]
    first = [each for each in of_transactions if each.name == of_transactions[0].name]
    return next((each for each in first if each.time == "response"), next(iter(first), None))


def _latency_chart(
    group: Group, found: Sequence[tuple[TreatmentAnalysis, Latency]], factor: str
) -> LineChart:
    known = min(latency.count for _, latency in found)
    # A percentile that a single request decides says nothing of the distribution.
    percents = [p for p in _PERCENTS if known * (1 - p / 100) >= 1] or [50]
    curves = [latency.percentiles_s(percents) for _, latency in found]
    low, high = min(curve[0] for curve in curves), max(curve[-1] for curve in curves)
    up = _LatencyAxis(math.log(low) - 0.05, math.log(high) + 0.05)
    places = [_place(percent, percents[0], percents[-1]) for percent in percents]
    lines = []
    for number, ((treatment, _), curve) in enumerate(zip(found, curves, strict=True)):
        label = level_text(factor, treatment.level)
        heights = [up.at(seconds) for seconds in curve]
        marks = tuple(
            Mark(x, y, None, None, f"{label}, {_nth(p)}: {latency_text(seconds)}")
            for x, y, p, seconds in zip(places, heights, percents, curve, strict=True)
        )
        path = " ".join(f"{mark.x:.2f},{mark.y:.2f}" for mark in marks)
        lines.append(Line(number, label, marks, (path,)))
    return LineChart(
        heading=group.label,
        description=f"{group.label}: {found[0][1].time} time by percentile",
        across=tuple(Tick(x, f"{p:g}") for x, p in zip(places, percents, strict=True)),
        up=up.ticks(),
        band=None,
        one=None,
        lines=tuple(lines),
    )


def _nth(percent: float) -> str:
    return f"{percent:g} % within"


def _place(percent: float, first: float, last: float) -> float:
    """Return percentiles by the logarithm of the rest, as HdrHistogram's plots have them."""
    rests = [math.log10(1 - each / 100) for each in (first, percent, last)]
    if rests[0] == rests[2]:
        return 50.0
    return 3 + 94 * (rests[0] - rests[1]) / (rests[0] - rests[2])


@dataclass(frozen=True)
class _LatencyAxis:
    """Latencies in s on a logarithmic axis, from the natural logarithm ``low`` to ``high``."""

    low: float
    high: float

    def at(self, seconds: float) -> float:
        return 100 - 100 * (math.log(seconds) - self.low) / (self.high - self.low)

    def ticks(self) -> tuple[Tick, ...]:
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        steps = (1, 2, 5) if self.high - self.low < math.log(500) else (1,)
        values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        inside = [value for value in values if self.low <= math.log(value) <= self.high]
        if not inside:
            inside = [math.exp((self.low + self.high) / 2)]
        return tuple(Tick(self.at(value), latency_text(value)) for value in inside)
