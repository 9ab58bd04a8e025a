"""Estimate levels, ratios, spread, power, rates and histograms from arrays.

This package is pure mathematics and imports nothing else of millrace.

Each module imports ``scipy`` alone, which loads its parts where they are first used: most commands
compute nothing, and ``scipy.stats`` takes longer to import than they take to run.
"""

from millrace.stats.change_points import ChangePoint, change_points
from millrace.stats.counts import CountDifferences, count_differences, count_limits
from millrace.stats.histogram import Histogram
from millrace.stats.mean import (
    MeanEstimate,
    OwnError,
    mean_estimate,
    mean_estimates,
    mean_limits,
    welch_p,
)
from millrace.stats.multiple_tests import HolmMark, benjamini_yekutieli, holm, holm_marks
from millrace.stats.power import blocks_to_decide, blocks_wanted, minimum_detectable_ratio
from millrace.stats.proportions import (
    against_at_most_half,
    binomial_upper_tail,
    fair_coin_e_value,
    proportion_limits,
    sign_test,
)
from millrace.stats.rates import RateComparison, compare_rates, fisher
from millrace.stats.ratio import Looks, RatioEstimate, log_ratios, paired_ratio
from millrace.stats.sequential import FEWEST_BLOCKS, FIRST_LOOK
from millrace.stats.spread import Summary, sd_limits, summarise
from millrace.stats.steady import Steady, steady_state
from millrace.stats.trend import Trend, classify_trend, detect_shared_drift

__all__ = [
    "FEWEST_BLOCKS",
    "FIRST_LOOK",
    "ChangePoint",
    "CountDifferences",
    "Histogram",
    "HolmMark",
    "Looks",
    "MeanEstimate",
    "OwnError",
    "RateComparison",
    "RatioEstimate",
    "Steady",
    "Summary",
    "Trend",
    "against_at_most_half",
    "benjamini_yekutieli",
    "binomial_upper_tail",
    "blocks_to_decide",
    "blocks_wanted",
    "change_points",
    "classify_trend",
    "compare_rates",
    "count_differences",
    "count_limits",
    "detect_shared_drift",
    "fair_coin_e_value",
    "fisher",
    "holm",
    "holm_marks",
    "log_ratios",
    "mean_estimate",
    "mean_estimates",
    "mean_limits",
    "minimum_detectable_ratio",
    "paired_ratio",
    "proportion_limits",
    "sd_limits",
    "sign_test",
    "steady_state",
    "summarise",
    "welch_p",
]
