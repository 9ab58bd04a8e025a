"""Pure mathematics on arrays: estimates, spread, power. Imports nothing of millrace."""

from millrace.stats.power import blocks_wanted, minimum_detectable_ratio
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.spread import Summary, summarise

__all__ = [
    "RatioEstimate",
    "Summary",
    "blocks_wanted",
    "minimum_detectable_ratio",
    "paired_ratio",
    "summarise",
]
