"""What a number of blocks can see, and how many blocks a difference wants.

Both follow from the power of the paired t-test, which is a tail of the noncentral t distribution
with noncentrality ``|log ratio| * sqrt(n) / log_sd`` (Owen, Biometrika 52, 1965; Cohen,
*Statistical Power Analysis for the Behavioral Sciences*, 2nd ed., 1988, ch. 2). The spread is
itself an estimate: read the answers as sizes, not as promises.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy import optimize, stats

FEWEST_BLOCKS = 3
MOST_BLOCKS = 10_000


def minimum_detectable_ratio(
    log_sd: float, n_blocks: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest ratio above 1 whose interval would exclude 1 with probability ``power``.

    ``log_sd`` is the standard deviation of the blocks' log-ratios; the reciprocal is seen as well.
    Raises ValueError for fewer than 2 blocks.
    """
    if n_blocks < 2:
        raise ValueError("one block says nothing about its own uncertainty")
    return math.exp(_noncentrality(n_blocks, alpha, power) * log_sd / math.sqrt(n_blocks))


def blocks_wanted(
    log_sd: float, margin: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """The fewest blocks (at least 3) that detect a true ratio of ``1 + margin`` with ``power``.

    ``margin`` is a positive fraction. None when even 10 000 blocks would not do: then the host is
    too noisy for such a margin. Raises ValueError for a margin that is not positive.
    """
    if margin <= 0:
        raise ValueError("a margin is a positive fraction, such as 0.02")

    def enough(n_blocks: int) -> bool:
        seen = minimum_detectable_ratio(log_sd, n_blocks, alpha=alpha, power=power)
        return seen <= 1 + margin

    if not enough(MOST_BLOCKS):
        return None
    too_few, wanted = FEWEST_BLOCKS - 1, FEWEST_BLOCKS
    while not enough(wanted):
        too_few, wanted = wanted, min(2 * wanted, MOST_BLOCKS)
    while wanted - too_few > 1:
        middle = (too_few + wanted) // 2
        too_few, wanted = (too_few, middle) if enough(middle) else (middle, wanted)
    return wanted


@lru_cache(maxsize=4096)
def _noncentrality(n_blocks: int, alpha: float, power: float) -> float:
    """The noncentrality at which the two-sided t-test of ``n_blocks`` reaches ``power``.

    Only the tail on the true difference's side counts: a significant difference in the wrong
    direction is no success.
    """
    freedom = n_blocks - 1
    critical = float(stats.t.ppf(1 - alpha / 2, freedom))

    def shortfall(noncentrality: float) -> float:
        return float(stats.nct.sf(critical, freedom, noncentrality)) - power

    return float(optimize.brentq(shortfall, 0.0, 5 * critical + 10))
