"""Where the marks of the charts go, in percent of the width: text never has to scale with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millrace.analysis.metrics import Metric
from millrace.analysis.model import Comparison, Group, RunAnalysis, TreatmentAnalysis
from millrace.report.formatting import MISSING, count_text, percent_text, value_text
from millrace.report.sentences import verdict_text

WIDE = 2.5  # an axis of ratios that spans more has its ticks at halves and doubles


@dataclass(frozen=True)
class Tick:
    """A labelled position of an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Point:
    """A single trial: ``at`` in percent of the width, ``down`` from 0 (first block) to 1 (last)."""

    at: float
    down: float
    title: str


@dataclass(frozen=True)
class Bar:
    """A treatment's level with its interval and single trials; ``at`` is None without a result.

    ``high_cut`` says that the interval goes on beyond the axis.
    """

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
    """The bars of one group; every group of a report has the same axis, from 0."""

    heading: str
    ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Ratio:
    """A comparison's ratio and interval on the common axis.

    ``low_cut`` and ``high_cut`` say that the interval goes on beyond the axis.
    """

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
    """The levels of every treatment in ``metric``, a chart a group."""
    summaries = [t.metrics[metric.name] for t in analysis.treatments if metric.name in t.metrics]
    if not summaries:
        return ()
    longest = max(max(s.summary.maximum, s.summary.high or 0.0) for s in summaries)
    # One wild interval must not squeeze every bar.
    longest = min(longest, 1.5 * max(s.summary.maximum for s in summaries))
    steps = _linear_ticks(longest)
    top = max(longest, steps[-1])
    ticks = tuple(Tick(100 * step / top, _tick_text(step)) for step in steps)
    return tuple(
        BarChart(group.label, ticks, tuple(_bar(t, metric, top) for t in group.treatments))
        for group in analysis.groups
    )


def _bar(treatment: TreatmentAnalysis, metric: Metric, top: float) -> Bar:
    label = str(treatment.level)
    found = treatment.metrics.get(metric.name)
    if found is None:
        text = "failed" if treatment.failed else MISSING
        return Bar(
            label, text, f"{label}: no result", None, None, None, False, (), treatment.is_base
        )
    summary = found.summary
    value = f"{value_text(summary.geometric_mean, metric)} {metric.unit}"
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
    if summary.low is not None and summary.high is not None:
        low, high = value_text(summary.low, metric), value_text(summary.high, metric)
        description += f", interval {low} to {high}, {summary.n} trials"
    return Bar(
        label=label,
        value=value,
        description=description,
        at=100 * summary.geometric_mean / top,
        low_at=None if summary.low is None else 100 * summary.low / top,
        high_at=None if summary.high is None else min(100.0, 100 * summary.high / top),
        high_cut=summary.high is not None and summary.high > top * (1 + 1e-9),
        points=points,
        is_base=treatment.is_base,
    )


def ratio_charts(analysis: RunAnalysis, metric: Metric) -> tuple[RatioChart, ...]:
    """Every comparison's ratio in ``metric``, a chart a group, on one common axis."""
    comparisons = analysis.comparisons(metric)
    if all(comparison.estimate is None for comparison in comparisons):
        return ()
    axis = _LogAxis.around(comparisons, analysis.margin)
    worse, better = "◂ worse", "better ▸"
    left, right = (worse, better) if metric.direction == "higher" else ("◂ better", "worse ▸")
    return tuple(
        RatioChart(
            heading=group.label,
            ticks=axis.ticks(),
            one_at=axis.at(1.0),
            margin_low_at=axis.at(1 / (1 + analysis.margin)),
            margin_high_at=axis.at(1 + analysis.margin),
            left=left,
            right=right,
            ratios=tuple(_ratio(c, axis) for c in _of_metric(group, metric)),
        )
        for group in analysis.groups
    )


def _of_metric(group: Group, metric: Metric) -> list[Comparison]:
    return [c for c in group.comparisons if c.metric.name == metric.name]


@dataclass(frozen=True)
class _LogAxis:
    low: float
    high: float

    @classmethod
    def around(cls, comparisons: Iterable[Comparison], margin: float) -> _LogAxis:
        """Wide enough for every interval, but not for one that dwarfs all estimates."""
        estimates = [c.estimate for c in comparisons if c.estimate is not None]
        core = [1 / (1 + margin), 1 + margin, *(e.ratio for e in estimates)]
        reach = 2 * (math.log(max(core)) - math.log(min(core)))
        lows = [e.low for e in estimates if e.low is not None]
        highs = [e.high for e in estimates if e.high is not None]
        low = max(min(core + lows), min(core) * math.exp(-reach))
        high = min(max(core + highs), max(core) * math.exp(reach))
        edge = 0.06 * (math.log(high) - math.log(low))
        return cls(low * math.exp(-edge), high * math.exp(edge))

    def at(self, ratio: float) -> float:
        """The position of ``ratio`` in percent of the width, held within it."""
        span = math.log(self.high) - math.log(self.low)
        return min(100.0, max(0.0, 100 * (math.log(ratio) - math.log(self.low)) / span))

    def ticks(self) -> tuple[Tick, ...]:
        """Even differences; on a wide axis, halves and doubles, which are even in logarithms."""
        if self.high / self.low > WIDE:
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            stride = max(1, math.ceil((last - first) / 6))
            ratios = [2.0**power for power in range(first, last + 1) if power % stride == 0]
        else:
            step = _nice((self.high - self.low) / 5)
            first, last = math.ceil((self.low - 1) / step), math.floor((self.high - 1) / step)
            ratios = [1 + number * step for number in range(first, last + 1)]
        return tuple(Tick(self.at(r), _difference(r)) for r in ratios if self.low < r < self.high)


def _difference(ratio: float) -> str:
    """``−10 %``, ``+0.5 %``, ``×8``, ``÷8``: a tick's difference from 1, short."""
    if ratio >= 8:
        return f"×{ratio:,.0f}"
    if ratio <= 1 / 8:
        return f"÷{1 / ratio:,.0f}"
    percent = round((ratio - 1) * 100, 3)
    if percent == 0:
        return "0"
    return f"{'−' if percent < 0 else '+'}{abs(percent):.3g} %"


def _ratio(comparison: Comparison, axis: _LogAxis) -> Ratio:
    label, verdict = str(comparison.candidate), verdict_text(comparison)
    estimate = comparison.estimate
    if estimate is None:
        return Ratio(label, MISSING, f"{label}: {verdict}", verdict, None, None, None, False, False)
    low, high = estimate.low, estimate.high
    value = percent_text(estimate.ratio - 1, signed=True)
    description = f"{label}: {value}, {verdict}"
    if low is not None and high is not None:
        interval = (percent_text(low - 1, signed=True), percent_text(high - 1, signed=True))
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


def _linear_ticks(longest: float) -> Sequence[float]:
    step = _nice(longest / 5)
    return [number * step for number in range(math.floor(longest / step + 1e-9) + 1)]


def _tick_text(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return count_text(value) if value else "0"


def _nice(step: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))
