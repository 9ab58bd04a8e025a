"""Charts of lines: latency by percentile, and ratios by level of the compared factor."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Latency, Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import factor_text, level_text, level_value
from millrace.model.roles import MEASURED
from millrace.report.common.charts import MOST_LINES, WIDE, Line, LineChart, LogAxis, Mark, Tick
from millrace.report.common.formatting import difference_text, latency_text
from millrace.report.run.matrix import row_label, sections
from millrace.report.run.sentences import verdict_text
from millrace.stats.ratio import RatioEstimate

_PERCENTS = (10, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999)


def latency_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return latency by percentile: a chart for each group of at most ``MOST_LINES`` treatments."""
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
            Mark(x, y, None, None, f"{label}, {p:g} % within: {latency_text(seconds)}")
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


_DODGE = 1.1  # percent of the width between lines at one place, so that intervals do not hide


def relative_charts(analysis: RunAnalysis, metric: Metric) -> tuple[LineChart, ...]:
    """Return ratios to the base by level of the compared factor: a chart a section, a line a group.

    All have one axis, unless that would be so wide that small differences could not be seen.
    A section of more than ``MOST_LINES`` groups has no chart.
    """
    everywhere = _estimates(analysis.comparisons(metric))
    if not everywhere:
        return ()
    common = LogAxis.around(everywhere, analysis.margin)
    charts = []
    for heading, groups in sections(analysis):
        own = _estimates(c for group in groups for c in group.in_metric(metric))
        if not own or len(groups) > MOST_LINES:
            continue
        wide = common.high / common.low > WIDE
        axis = LogAxis.around(own, analysis.margin) if wide else common
        levels = dict.fromkeys(level_value(t.level) for group in groups for t in group.treatments)
        places = {level: 100 * (n + 0.5) / len(levels) for n, level in enumerate(levels)}
        charts.append(_relative_chart(heading, groups, _Plot(metric, axis, places, analysis)))
    return tuple(charts)


def have_one_axis(charts: Sequence[LineChart]) -> bool:
    """Return whether all charts have the same axis of values."""
    return len({chart.up for chart in charts}) <= 1


def _estimates(comparisons: Iterable[Comparison]) -> list[RatioEstimate]:
    return [c.estimate for c in comparisons if c.estimate is not None]


@dataclass(frozen=True)
class _Plot:
    """The common parts of a chart's lines; ``places`` are percent of the width by level."""

    metric: Metric
    axis: LogAxis
    places: Mapping[str, float]
    analysis: RunAnalysis


def _relative_chart(heading: str, groups: Sequence[Group], plot: _Plot) -> LineChart:
    metric, axis, analysis = plot.metric, plot.axis, plot.analysis
    middle = (len(groups) - 1) / 2
    subject = f"{heading}: " if heading else ""
    return LineChart(
        heading=heading,
        description=(
            f"{subject}{metric.title} relative to {analysis.base_text}, "
            f"by {factor_text(analysis.factor)}"
        ),
        across=tuple(Tick(at, level) for level, at in plot.places.items()),
        up=tuple(Tick(100 - tick.at, tick.label) for tick in axis.ticks()),
        band=(100 - axis.at(1 + analysis.margin), 100 - axis.at(1 / (1 + analysis.margin))),
        one=100 - axis.at(1.0),
        lines=tuple(
            _relative_line(number, group, plot, shift=_DODGE * (number - middle))
            for number, group in enumerate(groups)
        ),
    )


def _relative_line(number: int, group: Group, plot: _Plot, *, shift: float) -> Line:
    """Return a group's ratios; the line is broken where the family of the server changes."""
    comparisons = {c.candidate_id: c for c in group.in_metric(plot.metric)}
    marks: list[Mark] = []
    pieces: list[list[str]] = [[]]
    family = None
    for treatment in group.treatments:
        servers = (i.server for i in treatment.instances if i.role in MEASURED)
        if (own := next((server.family for server in servers), None)) != family:
            family = own
            pieces.append([])
        mark = _relative_mark(treatment, comparisons.get(treatment.id), plot, shift)
        if mark is None:
            pieces.append([])
            continue
        marks.append(mark)
        pieces[-1].append(f"{mark.x:.2f},{mark.y:.2f}")
    return Line(
        number,
        row_label(group, plot.analysis) or plot.metric.title,
        tuple(marks),
        tuple(" ".join(piece) for piece in pieces if len(piece) > 1),
    )


def _relative_mark(
    treatment: TreatmentAnalysis, comparison: Comparison | None, plot: _Plot, shift: float
) -> Mark | None:
    x, axis = plot.places[level_value(treatment.level)] + shift, plot.axis
    if treatment.is_base and treatment.finished:
        return Mark(x, 100 - axis.at(1.0), None, None, f"{treatment.label}: the base")
    if comparison is None or comparison.estimate is None:
        return None
    estimate = comparison.estimate
    title = f"{treatment.label}: {_in_words(estimate)}, {verdict_text(comparison)}"
    return axis.mark(x, estimate, title)


def _in_words(estimate: RatioEstimate) -> str:
    """Return text such as ``−9.8 %, interval −11.3 % to −8.3 %``."""
    centre, low, high = (
        None if ratio is None else difference_text(ratio)
        for ratio in (estimate.ratio, estimate.low, estimate.high)
    )
    return f"{centre}" if low is None else f"{centre}, interval {low} to {high}"
