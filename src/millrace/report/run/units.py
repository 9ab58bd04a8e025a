"""Latencies in a readable unit: 42.1 µs instead of 0.0000421 s.

Only reports that people read are scaled; JSON and CSV keep seconds.
"""

from collections.abc import Mapping
from dataclasses import replace

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import MetricSummary, TreatmentAnalysis
from millrace.stats.spread import Summary

_UNITS = (("µs", 1e6, 1e-3), ("ms", 1e3, 1.0))  # unit, how many make a second, for less than
UNITS_OF_TIME = ("s", "ms", "µs")
_OF_ONE = (("transactions",), ("replicated_transactions",), ("rows",))  # denominators

_VALUES = (
    "mean", "median", "geometric_mean", "low", "high", "minimum", "maximum", "lower_quartile",
    "upper_quartile", "sd",
)  # fmt: skip


def readable(analysis: RunAnalysis) -> RunAnalysis:
    """Return the analysis with request and row times in ms or µs if they are all below 1 s."""
    scaled = {
        metric.name: (metric.replace(unit=found[0]), found[1])
        for metric in analysis.metrics
        if (found := _unit(metric, analysis)) is not None
    }
    if not scaled:
        return analysis

    def of(metric: Metric) -> Metric:
        return scaled[metric.name][0] if metric.name in scaled else metric

    return replace(
        analysis,
        metrics=tuple(map(of, analysis.metrics)),
        headline=of(analysis.headline),
        time=None if analysis.time is None else of(analysis.time),
        groups=tuple(
            replace(
                group,
                treatments=tuple(_treatment(t, scaled) for t in group.treatments),
                comparisons=tuple(replace(c, metric=of(c.metric)) for c in group.comparisons),
            )
            for group in analysis.groups
        ),
    )


def level_s(found: MetricSummary) -> float:
    """Return the level of a time metric in seconds, even after ``readable``."""
    return found.level / next((n for unit, n, _ in _UNITS if unit == found.metric.unit), 1.0)


def _unit(metric: Metric, analysis: RunAnalysis) -> tuple[str, float] | None:
    """Return the unit for a metric and the units per second; None to keep the metric's unit."""
    is_of_one = metric.percentile is not None or metric.denominator in _OF_ONE
    if metric.unit != "s" or not is_of_one:
        return None
    found = [t.metrics[metric.name] for t in analysis.treatments if metric.name in t.metrics]
    largest = max((each.summary.maximum for each in found), default=1.0)
    return next(((unit, factor) for unit, factor, limit in _UNITS if largest < limit), None)


def _treatment(
    treatment: TreatmentAnalysis, scaled: Mapping[str, tuple[Metric, float]]
) -> TreatmentAnalysis:
    metrics = {
        name: _summary(found, *scaled[name]) if name in scaled else found
        for name, found in treatment.metrics.items()
    }
    return replace(treatment, metrics=metrics)


def _summary(found: MetricSummary, metric: Metric, factor: float) -> MetricSummary:
    values = {
        name: value * factor
        for name in _VALUES
        if (value := getattr(found.summary, name)) is not None
    }
    summary: Summary = replace(found.summary, **values)
    trials = tuple(replace(trial, value=trial.value * factor) for trial in found.trials)
    return MetricSummary(metric, summary, trials, found.level * factor, found.zeros)
