"""The positions of the charts' marks, in percent of the width, so that text never scales."""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import level_text
from millrace.report.common.charts import LogAxis, Tick, linear_ticks
from millrace.report.common.formatting import MISSING, count_text, difference_text, value_text
from millrace.report.run.matrix import is_large, sections
from millrace.report.run.sentences import verdict_text


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
