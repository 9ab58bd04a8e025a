"""Compute the power of a number of blocks, and the blocks that a difference needs.

Both follow from the power of the paired t-test, which is a tail of the noncentral t distribution
with noncentrality ``|log ratio| * sqrt(n) / log_sd`` (Owen, Biometrika 52, 1965; Cohen,
*Statistical Power Analysis for the Behavioral Sciences*, 2nd ed., 1988, ch. 2). The spread is
itself an estimate: the answers are orders of magnitude, not guarantees. The degrees of freedom from
other comparisons (``shared_noise``) are assumed to stay constant.

With any number of ``looks`` the power is that of the last look. Earlier looks add a little, so the
true power is slightly higher.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import scipy

from millrace.stats import sequential
from millrace.stats.ratio import Looks, RatioEstimate, from_log
from millrace.stats.sequential import FEWEST_VALUES

MOST_BLOCKS = 10_000
_POWER = 0.8


def minimum_detectable_ratio(
    log_sd: float,
    n_blocks: int,
    *,
    alpha: float = 0.05,
    looks: Looks = "once",
    borrowed: float = 0.0,
) -> float:
    """Return the smallest ratio above 1 whose interval would exclude 1 with probability 0.8.

    ``log_sd`` is the standard deviation of the blocks' log-ratios; ``borrowed`` degrees of freedom
    come from other evidence. The reciprocal ratio is detected with the same probability. Raises
    ValueError for fewer blocks than an interval needs: 2, or 3 with any number of looks.
    """
    if n_blocks < 2:
        raise ValueError("power needs at least two blocks")
    if not math.isfinite(_critical_t(n_blocks, alpha, looks, borrowed)):
        raise ValueError(f"at least {FEWEST_VALUES} blocks are needed before the first look")
    distance = _noncentrality(n_blocks, alpha, looks, borrowed)
    return from_log(distance * log_sd / math.sqrt(n_blocks))


def blocks_wanted(
    log_sd: float,
    margin: float,
    *,
    alpha: float = 0.05,
    looks: Looks = "once",
    borrowed: float = 0.0,
) -> int | None:
    """Return the fewest blocks, at least 3, that detect a true ``1 + margin`` with power 0.8.

    None when even 10 000 blocks are too few. Raises ValueError for a margin that is not positive.
    """
    _check(margin)

    def enough(n_blocks: int) -> bool:
        seen = minimum_detectable_ratio(
            log_sd, n_blocks, alpha=alpha, looks=looks, borrowed=borrowed
        )
        return seen <= 1 + margin

    return _fewest(enough, at_least=FEWEST_VALUES)


def blocks_to_decide(
    estimate: RatioEstimate, margin: float, *, alpha: float | None = None
) -> int | None:
    """Return the number of further blocks that decide whether the ratio exceeds ``margin``.

    The estimate and its spread are assumed to stay constant, while the interval narrows with the
    number of blocks. If blocks are added after a look, the interval must be valid for any number of
    looks. ``alpha`` is the p-value that a difference needs, for example one corrected for many
    comparisons (default: the estimate's own). The result is at least 1; it is None without an
    interval, or if even 10 000 blocks are too few. Raises ValueError for a margin that is not
    positive.
    """
    _check(margin)
    if estimate.low is None or estimate.high is None:
        return None
    own_alpha, n_now = 1 - estimate.confidence, estimate.n_pairs
    centre, limit = math.log(estimate.ratio), math.log1p(margin)
    is_difference = abs(centre) > limit
    # A difference needs the end of the interval nearer to 1; equivalence needs the other end.
    by_low = (centre > 0) == is_difference
    reach = centre - math.log(estimate.low) if by_low else math.log(estimate.high) - centre
    room = abs(centre) if is_difference else limit - abs(centre)
    needed_alpha = own_alpha if alpha is None or not is_difference else alpha
    unit = reach / _half_width(n_now, own_alpha, estimate.looks, estimate.borrowed)

    def enough(n_blocks: int) -> bool:
        return unit * _half_width(n_blocks, needed_alpha, "any", estimate.borrowed) < room

    fewest = _fewest(enough, at_least=max(FEWEST_VALUES, n_now + 1))
    return None if fewest is None else fewest - n_now


def _half_width(n_blocks: int, alpha: float, looks: Looks, borrowed: float) -> float:
    """Return half the width of the interval, in standard deviations of a block."""
    return _critical_t(n_blocks, alpha, looks, borrowed) / math.sqrt(n_blocks)


def _check(margin: float) -> None:
    if margin <= 0:
        raise ValueError("a margin must be a positive fraction, such as 0.02")


def _fewest(enough: Callable[[int], bool], *, at_least: int) -> int | None:
    """Return the fewest blocks that are ``enough`` (then all more are); None if 10 000 are not."""
    if enough(at_least):
        return at_least
    if at_least >= MOST_BLOCKS or not enough(MOST_BLOCKS):
        return None
    too_few, wanted = at_least, min(2 * at_least, MOST_BLOCKS)
    while not enough(wanted):
        too_few, wanted = wanted, min(2 * wanted, MOST_BLOCKS)
    while wanted - too_few > 1:
        middle = (too_few + wanted) // 2
        too_few, wanted = (too_few, middle) if enough(middle) else (middle, wanted)
    return wanted


def _critical_t(n_blocks: int, alpha: float, looks: Looks, borrowed: float) -> float:
    """Return half the width of the interval of normal values, in standard errors of their mean."""
    if looks == "any":
        return sequential.critical_t(n_blocks, alpha, borrowed)
    return -float(scipy.special.stdtrit(n_blocks - 1 + borrowed, alpha / 2))


@lru_cache(maxsize=4096)
def _noncentrality(n_blocks: int, alpha: float, looks: Looks, borrowed: float) -> float:
    """Return the noncentrality at which a significant ratio in its direction has power 0.8."""
    freedom = n_blocks - 1 + borrowed
    critical = _critical_t(n_blocks, alpha, looks, borrowed)

    def shortfall(noncentrality: float) -> float:
        return 1 - float(scipy.special.nctdtr(freedom, noncentrality, critical)) - _POWER

    return float(scipy.optimize.brentq(shortfall, 0.0, 5 * critical + 10))
