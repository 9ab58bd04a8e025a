"""Pure mathematics on arrays: estimates, spread, power, rates, histograms. Nothing of ours."""

from millrace.stats.counts import CountDifferences, count_differences, count_limits
from millrace.stats.histogram import Histogram
from millrace.stats.holm import HolmMark, holm, holm_marks
from millrace.stats.mean import MeanEstimate, OwnError, mean_estimate, mean_estimates
from millrace.stats.power import blocks_wanted, minimum_detectable_ratio
from millrace.stats.rates import RateComparison, compare_rates
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.spread import Summary, summarise
from millrace.stats.steady import Steady, steady_state

__all__ = [
    "CountDifferences",
    "Histogram",
    "HolmMark",
    "MeanEstimate",
    "OwnError",
    "RateComparison",
    "RatioEstimate",
    "Steady",
    "Summary",
    "blocks_wanted",
    "compare_rates",
    "count_differences",
    "count_limits",
    "holm",
    "holm_marks",
    "mean_estimate",
    "mean_estimates",
    "minimum_detectable_ratio",
    "paired_ratio",
    "steady_state",
    "summarise",
]
