"""The charts of a run: bars, ratios, and lines by percentile, level, time and loop.

Positions are in percent of the width, so that text never scales.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Latency, Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis, shown
from millrace.levels import factor_text, level_text, level_value
from millrace.model.roles import MEASURED
from millrace.report.common.charts import (
    MOST_LINES,
    WIDE,
    Line,
    LineChart,
    LogAxis,
    Mark,
    Tick,
    linear_ticks,
    path_text,
)
from millrace.report.common.formatting import (
    MISSING,
    count_text,
    difference_text,
    grouped_text,
    latency_text,
    value_text,
)
from millrace.report.run.drive_tables import throughput_text
from millrace.report.run.matrix import is_large, row_label, sections
from millrace.report.run.sentences import verdict_text
from millrace.stats.ratio import RatioEstimate

_PERCENTS = (10, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999)
_MOST_MARKS = 24  # of a line of lags, so that they are distinct
_MOST_POINTS = 2000  # of a line of lags: more than a screen has, and a page has several
_MOST_LOOPS = 500  # of a line, apart from loops with marks
_SHORTEST_S = 1e-6
_DODGE = 1.1  # percent of the width between lines at one place, so that intervals do not hide


@dataclass(frozen=True)
class Point:
    """A single trial: ``at`` in percent of the width, ``down`` from 0 (first block) to 1 (last)."""

    at: float
    down: float
    title: str


@dataclass(frozen=True)
class Bar:
    """A treatment's level, if any; ``high_cut``: its interval goes on beyond the axis."""

    label: str
    value: str
    description: str
    at: float | None
    low_at: float | None
    high_at: float | None
    high_cut: bool
    points: tuple[Point, ...]
    is_base: bool


@dataclass(frozen=True)
class BarChart:
    """The bars of one group, on an axis from 0."""

    heading: str
    ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Ratio:
    """A ratio, if any; ``low_cut`` and ``high_cut``: its interval goes on beyond the axis."""

    label: str
    value: str
    description: str
    verdict: str
    at: float | None
    low_at: float | None
    high_at: float | None
    low_cut: bool
    high_cut: bool


@dataclass(frozen=True)
class RatioChart:
    """The ratios of one group on a logarithmic axis; the margin is the band around 1."""

    heading: str
    ticks: tuple[Tick, ...]
    one_at: float
    margin_low_at: float
    margin_high_at: float
    left: str
    right: str
    ratios: tuple[Ratio, ...]


def bar_charts(analysis: RunAnalysis, metric: Metric) -> tuple[BarChart, ...]:
    """Return all levels, a chart a group, on one axis; in a large run on one for each section."""
    parts = sections(analysis) if is_large(analysis) else [("", analysis.groups)]
    return tuple(
        chart for _, groups in parts for chart in _on_one_axis(groups, metric, analysis.factor)
    )


def _on_one_axis(groups: Sequence[Group], metric: Metric, factor: str) -> tuple[BarChart, ...]:
    treatments = [treatment for group in groups for treatment in group.treatments]
    shown = [t.metrics[metric.name] for t in treatments if metric.name in t.metrics]
    if not shown:
        return ()
    longest_bar = max(max(each.summary.maximum, each.level) for each in shown)
    # One wild interval must not squeeze every bar.
    longest = min(
        max(longest_bar, *(each.summary.high or 0.0 for each in shown)), 1.5 * longest_bar
    )
    steps = linear_ticks(longest)
    top = max(longest, steps[-1])
    ticks = tuple(
        Tick(
            100 * step / top,
            f"{step / 1e6:g} M" if step >= 1e6 else count_text(step) if step else "0",
        )
        for step in steps
    )
    return tuple(
        BarChart(group.label, ticks, tuple(_bar(t, metric, top, factor) for t in group.treatments))
        for group in groups
    )


def _bar(treatment: TreatmentAnalysis, metric: Metric, top: float, factor: str) -> Bar:
    label = level_text(factor, treatment.level)
    found = treatment.metrics.get(metric.name)
    if found is None:
        text, said = "failed" if treatment.failed else MISSING, f"{label}: no result"
        return Bar(label, text, said, None, None, None, False, (), treatment.is_base)
    summary = found.summary
    value = f"{value_text(found.level, metric)} {metric.unit}"
    last_block = max(1, *(trial.block for trial in found.trials))
    points = tuple(
        Point(
            at=100 * trial.value / top,
            down=trial.block / last_block,
            title=f"block {trial.block + 1}: {value_text(trial.value, metric)} {metric.unit}",
        )
        for trial in found.trials
    )
    description = f"{label}: {value}"
    adjustment = found.level / summary.geometric_mean
    low = None if summary.low is None else summary.low * adjustment
    high = None if summary.high is None else summary.high * adjustment
    if low is not None and high is not None:
        low_text, high_text = value_text(low, metric), value_text(high, metric)
        description += f", interval {low_text} to {high_text}, {summary.n} trials"
    return Bar(
        label=label,
        value=value,
        description=description,
        at=100 * found.level / top,
        low_at=None if low is None else 100 * low / top,
        high_at=None if high is None else min(100.0, 100 * high / top),
        high_cut=high is not None and high > top * (1 + 1e-9),
        points=points,
        is_base=treatment.is_base,
    )


def ratio_charts(analysis: RunAnalysis, metric: Metric) -> tuple[RatioChart, ...]:
    """Return every comparison's ratio in ``metric``, a chart a group, on one common axis."""
    comparisons = analysis.comparisons(metric)
    if all(comparison.estimate is None for comparison in comparisons):
        return ()
    axis = LogAxis.around([c.estimate for c in comparisons if c.estimate], analysis.margin)
    is_higher_better = metric.direction == "higher"
    left, right = ("◂ worse", "better ▸") if is_higher_better else ("◂ better", "worse ▸")
    return tuple(
        RatioChart(
            heading=group.label,
            ticks=axis.ticks(),
            one_at=axis.at(1.0),
            margin_low_at=axis.at(1 / (1 + analysis.margin)),
            margin_high_at=axis.at(1 + analysis.margin),
            left=left,
            right=right,
            ratios=tuple(_ratio(c, axis, analysis.factor) for c in group.in_metric(metric)),
        )
        for group in analysis.groups
    )


def _ratio(comparison: Comparison, axis: LogAxis, factor: str) -> Ratio:
    label, verdict = level_text(factor, comparison.candidate), verdict_text(comparison)
    estimate = comparison.estimate
    if estimate is None:
        return Ratio(label, MISSING, f"{label}: {verdict}", verdict, None, None, None, False, False)
    low, high = estimate.low, estimate.high
    value = difference_text(estimate.ratio)
    description = f"{label}: {value}, {verdict}"
    if low is not None and high is not None:
        interval = (difference_text(low), difference_text(high))
        description = f"{label}: {value}, interval {interval[0]} to {interval[1]}, {verdict}"
    return Ratio(
        label=label,
        value=value,
        description=description,
        verdict=verdict,
        at=axis.at(estimate.ratio),
        low_at=None if low is None else axis.at(low),
        high_at=None if high is None else axis.at(high),
        low_cut=low is not None and low < axis.low,
        high_cut=high is not None and high > axis.high,
    )


def _group_charts(
    groups: Sequence[Group],
    factor: str,
    draw: Callable[[Group, Sequence[TreatmentAnalysis], str], LineChart],
    *,
    has_line: Callable[[TreatmentAnalysis], bool],
) -> tuple[LineChart, ...]:
    """Return a chart for each group in which 1 to ``MOST_LINES`` treatments have a line."""
    charts = []
    for group in groups:
        shown = [each for each in group.treatments if has_line(each)]
        if 0 < len(shown) <= MOST_LINES:
            charts.append(draw(group, shown, factor))
    return tuple(charts)


def latency_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return latency by percentile, a chart a group."""
    return _group_charts(
        groups, factor, _latency_chart, has_line=lambda each: latency_of(each) is not None
    )


def latency_of(treatment: TreatmentAnalysis) -> Latency | None:
    """Return the latencies of a treatment's first transaction; response time where there is."""
    of_transactions = [latency for latency in treatment.latencies if latency.of == "transaction"]
    first = [each for each in of_transactions if each.name == of_transactions[0].name]
    return next((each for each in first if each.time == "response"), next(iter(first), None))


def _latency_chart(group: Group, treatments: Sequence[TreatmentAnalysis], factor: str) -> LineChart:
    latencies = [latency for each in treatments if (latency := latency_of(each)) is not None]
    known = min(latency.count for latency in latencies)
    # A percentile that a single request decides says nothing of the distribution.
    percents = [p for p in _PERCENTS if known * (1 - p / 100) >= 1] or [50]
    curves = [latency.percentiles_s(percents) for latency in latencies]
    low, high = min(curve[0] for curve in curves), max(curve[-1] for curve in curves)
    up = _LatencyAxis(math.log(low) - 0.05, math.log(high) + 0.05)
    places = [_place(percent, percents[0], percents[-1]) for percent in percents]
    lines = []
    for number, (treatment, curve) in enumerate(zip(treatments, curves, strict=True)):
        label = level_text(factor, treatment.level)
        marks = tuple(
            Mark(x, up.at(seconds), f"{label}, {p:g} % within: {latency_text(seconds)}")
            for x, p, seconds in zip(places, percents, curve, strict=True)
        )
        lines.append(Line(number, label, marks, (path_text((mark.x, mark.y) for mark in marks),)))
    return LineChart(
        heading=group.label,
        description=f"{group.label}: {latencies[0].time} time by percentile",
        across=tuple(Tick(x, f"{p:g}") for x, p in zip(places, percents, strict=True)),
        up=up.ticks(),
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
    return axis.chart(
        analysis.margin,
        heading=heading,
        description=(
            f"{subject}{metric.title} relative to {analysis.base_text}, "
            f"by {factor_text(analysis.factor)}"
        ),
        across=(Tick(at, level) for level, at in plot.places.items()),
        lines=(
            _relative_line(number, group, plot, shift=_DODGE * (number - middle))
            for number, group in enumerate(groups)
        ),
    )


def _relative_line(number: int, group: Group, plot: _Plot, *, shift: float) -> Line:
    """Return a group's ratios; the line is broken where the family of the server changes."""
    comparisons = {c.candidate_id: c for c in group.in_metric(plot.metric)}
    marks: list[Mark] = []
    pieces: list[list[tuple[float, float]]] = [[]]
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
        pieces[-1].append((mark.x, mark.y))
    return Line(
        number,
        row_label(group, plot.analysis) or plot.metric.title,
        tuple(marks),
        tuple(path_text(piece) for piece in pieces if len(piece) > 1),
    )


def _relative_mark(
    treatment: TreatmentAnalysis, comparison: Comparison | None, plot: _Plot, shift: float
) -> Mark | None:
    x, axis = plot.places[level_value(treatment.level)] + shift, plot.axis
    if treatment.is_base and treatment.finished:
        return Mark(x, 100 - axis.at(1.0), f"{treatment.label}: the base")
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


def lag_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return the lag of a replica that was attached before its source was loaded, a chart a group.

    It is drawn over time.
    """
    return _group_charts(groups, factor, _lag_chart, has_line=lambda each: bool(each.lag))


def _lag_chart(group: Group, treatments: Sequence[TreatmentAnalysis], factor: str) -> LineChart:
    width_s = _extent_s(t_s for each in treatments for t_s, _ in each.lag)
    height_s = _extent_s(lag_s for each in treatments for _, lag_s in each.lag)
    return LineChart(
        heading=group.label,
        description=f"{group.label}: lag of the replica over time",
        across=tuple(Tick(100 * at / width_s, f"{at:g} s") for at in linear_ticks(width_s)),
        up=tuple(Tick(100 - 100 * at / height_s, f"{at:g} s") for at in linear_ticks(height_s)),
        lines=tuple(
            _lag_line(number, each, factor, scale=(width_s, height_s))
            for number, each in enumerate(treatments)
        ),
    )


def _extent_s(values_s: Iterable[float]) -> float:
    """Return the length of an axis, at least the shortest time that millrace can measure."""
    longest_s = max(values_s)
    return longest_s if longest_s >= _SHORTEST_S else 1.0


def _lag_line(
    number: int, treatment: TreatmentAnalysis, factor: str, *, scale: tuple[float, float]
) -> Line:
    label = level_text(factor, treatment.level)
    peaks = _peaks(treatment.lag)
    points = [(100 * t_s / scale[0], 100 - 100 * lag_s / scale[1]) for t_s, lag_s in peaks]
    stride = max(1, -(-len(points) // _MOST_MARKS))
    marks = tuple(
        Mark(*point, f"{label}, {t_s:.1f} s: {latency_text(lag_s)} behind")
        for point, (t_s, lag_s) in list(zip(points, peaks, strict=True))[::stride]
    )
    return Line(number, label, marks, (path_text(points),))


def _peaks(lag: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a line: the greatest lag of each group of equally many neighbours."""
    stride = -(-len(lag) // _MOST_POINTS) or 1
    parts = (lag[start : start + stride] for start in range(0, len(lag), stride))
    return [max(part, key=lambda point: point[1]) for part in parts]


def loop_charts(groups: Sequence[Group], factor: str) -> tuple[LineChart, ...]:
    """Return throughput by loop, a chart a group."""
    return _group_charts(groups, factor, _loop_chart, has_line=lambda each: len(each.loops) > 1)


def _loop_chart(group: Group, treatments: Sequence[TreatmentAnalysis], factor: str) -> LineChart:
    most = max(len(each.loops) for each in treatments)
    highest = max(loop.throughput for each in treatments for loop in each.loops) or 1.0

    def line(number: int, treatment: TreatmentAnalysis) -> Line:
        label, loops = level_text(factor, treatment.level), treatment.loops
        stride, marked = -(-len(loops) // _MOST_LOOPS), shown(most)
        points = {
            each.loop: (_loop_at(each.loop, most), 100 - 100 * each.throughput / highest)
            for number, each in enumerate(loops)
            if number % stride == 0 or each.loop in marked
        }
        marks = tuple(
            Mark(
                *points[each.loop],
                f"{label}, loop {each.loop}: {throughput_text(each)} transactions/s",
            )
            for each in loops
            if each.loop in marked
        )
        return Line(number, label, marks, (path_text(points.values()),))

    return LineChart(
        heading=group.label,
        description=f"{group.label}: throughput by loop",
        across=tuple(Tick(_loop_at(number, most), f"{number}") for number in shown(most)),
        up=tuple(Tick(100 - 100 * at / highest, grouped_text(at)) for at in linear_ticks(highest)),
        lines=tuple(line(number, each) for number, each in enumerate(treatments)),
    )


def _loop_at(loop: int, most: int) -> float:
    return 100 * (loop - 1) / (most - 1) if most > 1 else 50.0
