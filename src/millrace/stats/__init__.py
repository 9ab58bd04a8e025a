"""Pure mathematics on arrays: estimates, spread, power, rates, histograms. Nothing of ours."""

from millrace.stats.histogram import Histogram
from millrace.stats.power import blocks_wanted, minimum_detectable_ratio
from millrace.stats.rates import RateComparison, compare_rates
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.spread import Summary, summarise

__all__ = [
    "Histogram",
    "RateComparison",
    "RatioEstimate",
    "Summary",
    "blocks_wanted",
    "compare_rates",
    "minimum_detectable_ratio",
    "paired_ratio",
    "summarise",
]
