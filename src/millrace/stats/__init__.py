"""Pure mathematics on arrays: estimates, spread, power, rates, histograms. Nothing of ours."""

from millrace.stats.change_points import ChangePoint, change_points
from millrace.stats.counts import CountDifferences, count_differences, count_limits
from millrace.stats.histogram import Histogram
from millrace.stats.holm import HolmMark, holm, holm_marks
from millrace.stats.mean import MeanEstimate, OwnError, mean_estimate, mean_estimates
from millrace.stats.power import blocks_wanted, minimum_detectable_ratio
from millrace.stats.rates import RateComparison, compare_rates
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.spread import Summary, summarise

__all__ = [
    "ChangePoint",
    "CountDifferences",
    "Histogram",
    "HolmMark",
    "MeanEstimate",
    "OwnError",
    "RateComparison",
    "RatioEstimate",
    "Summary",
    "blocks_wanted",
    "change_points",
    "compare_rates",
    "count_differences",
    "count_limits",
    "holm",
    "holm_marks",
    "mean_estimate",
    "mean_estimates",
    "minimum_detectable_ratio",
    "paired_ratio",
    "summarise",
]
