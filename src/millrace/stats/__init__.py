"""Estimate levels, ratios, spread, power, rates and histograms from arrays.

This package is pure mathematics and imports nothing else of millrace.

Each module imports ``scipy`` alone, which loads its parts where they are first used: most commands
compute nothing, and ``scipy.stats`` takes longer to import than they take to run.
"""

from millrace.stats.change_points import ChangePoint as ChangePoint
from millrace.stats.change_points import change_points as change_points
from millrace.stats.counts import CountDifferences as CountDifferences
from millrace.stats.counts import count_differences as count_differences
from millrace.stats.counts import count_limits as count_limits
from millrace.stats.histogram import Histogram as Histogram
from millrace.stats.mean import MeanEstimate as MeanEstimate
from millrace.stats.mean import OwnError as OwnError
from millrace.stats.mean import mean_estimate as mean_estimate
from millrace.stats.mean import mean_estimates as mean_estimates
from millrace.stats.mean import mean_limits as mean_limits
from millrace.stats.mean import welch_p as welch_p
from millrace.stats.multiple_tests import HolmMark as HolmMark
from millrace.stats.multiple_tests import benjamini_yekutieli as benjamini_yekutieli
from millrace.stats.multiple_tests import holm as holm
from millrace.stats.multiple_tests import holm_marks as holm_marks
from millrace.stats.power import blocks_to_decide as blocks_to_decide
from millrace.stats.power import blocks_wanted as blocks_wanted
from millrace.stats.power import minimum_detectable_ratio as minimum_detectable_ratio
from millrace.stats.proportions import against_at_most_half as against_at_most_half
from millrace.stats.proportions import binomial_upper_tail as binomial_upper_tail
from millrace.stats.proportions import fair_coin_e_value as fair_coin_e_value
from millrace.stats.proportions import proportion_limits as proportion_limits
from millrace.stats.proportions import sign_test as sign_test
from millrace.stats.rates import RateComparison as RateComparison
from millrace.stats.rates import compare_rates as compare_rates
from millrace.stats.rates import fisher as fisher
from millrace.stats.ratio import Looks as Looks
from millrace.stats.ratio import RatioEstimate as RatioEstimate
from millrace.stats.ratio import log_ratios as log_ratios
from millrace.stats.ratio import paired_ratio as paired_ratio
from millrace.stats.sequential import FEWEST_BLOCKS as FEWEST_BLOCKS
from millrace.stats.sequential import FIRST_LOOK as FIRST_LOOK
from millrace.stats.spread import Summary as Summary
from millrace.stats.spread import sd_limits as sd_limits
from millrace.stats.spread import summarise as summarise
from millrace.stats.steady import Steady as Steady
from millrace.stats.steady import steady_state as steady_state
from millrace.stats.trend import Trend as Trend
from millrace.stats.trend import classify_trend as classify_trend
from millrace.stats.trend import detect_shared_drift as detect_shared_drift
