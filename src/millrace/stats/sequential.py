"""Compute a confidence sequence: intervals that hold for any number of looks.

A confidence sequence covers the truth at all looks at once with probability ``1 - alpha``, so that
the user may stop, or go on, for any reason. This one is the intersection of two that share
``alpha`` (Bonferroni): one of the mean, which detects large differences after few blocks, and one
by ranks, which is robust to outliers.

The one of the mean is Lai's ("On confidence sequences", Annals of Statistics 4, 1976) for normal
values of unknown spread. Wang and Ramdas ("Anytime-valid t-tests and confidence sequences for
Gaussian means with unknown variance", arXiv 2310.03722) show that it is the t-test mixed over a
flat prior of the effect, started at a first look, so that no size of effect has to be guessed
beforehand. With ``t`` the t statistic of ``n`` values the mixture is ``(1 + t² / (n - 1))^(n / 2) /
√n``. From the first look ``m`` on, the probability that it ever reaches its value at ``t = a``
there is at most ``2 (1 - F(a) + a f(a))``, F and f being the distribution function and density of
Student's t with ``m - 1`` degrees of freedom. Two looks before that are for differences far larger
than the spread: each is a t-test with a small share of ``alpha``.

The one by ranks applies the same mixture to the normal scores of the signed ranks (van der
Waerden, Indagationes Mathematicae 14, 1952; Fraser, Annals of Mathematical Statistics 28, 1957),
and its interval is that of all shifts it does not reject (Hodges and Lehmann, Annals of
Mathematical Statistics 34, 1963). Two equal treatments that take turns in random order have
log-ratios symmetric about 0, whatever disturbs the blocks; the ranks' signs are then fair coin
tosses, so that the error rate does not depend on the noise. Simulated, it is below its share of
``alpha`` (``tests/unit/stats/test_sequential.py``).

A spread with evidence from other comparisons of a run (``shared_noise``) replaces the values' own
spread in the mixture, with its degrees of freedom ``f`` in the exponent:
``(1 + t² / f)^((f + 1) / 2) / √n``. The critical level stays that of the values' own spread, which
is higher.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

FEWEST_VALUES = 3  # fewer values give no usable spread
FIRST_LOOK = 5
FIRST_RANKS = 8  # with fewer blocks, equal signs are too likely by chance
_EARLY_LOOKS = FIRST_LOOK - FEWEST_VALUES

# Shares of alpha.
_MEAN = 0.38
_EARLY = 0.02
_RANKS = 0.6

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A standard deviation; ``borrowed`` degrees of freedom come from other evidence."""

    sd: float
    borrowed: float


def interval(
    log_ratios: ArrayLike, alpha: float, spread: Spread | None = None
) -> tuple[float, float]:
    """Return the limits of the centre of ``log_ratios``, shape (n,); infinite below 3 blocks.

    ``spread`` is that of the values unless given.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    n_blocks = len(values)
    if n_blocks < FEWEST_VALUES:
        return -math.inf, math.inf
    spread = spread or _own_spread(values)
    critical = _mean_critical(n_blocks, alpha, spread.borrowed)
    mean, half_width = float(values.mean()), critical * spread.sd / math.sqrt(n_blocks)
    low, high = mean - half_width, mean + half_width
    if n_blocks >= FIRST_RANKS:
        rank_low, rank_high = _rank_limits(values, alpha)
        # If the two intervals do not overlap, use the range between them.
        low, high = sorted((max(low, rank_low), min(high, rank_high)))
    return low, high


def mean_interval(
    values: ArrayLike, alpha: float, *, least_error: float = 0.0
) -> tuple[float, float]:
    """Return the limits of the mean of ``values``, shape (n,), infinite below 3 values.

    They are from the mixture of the mean alone, for summed quantities: ranks nearly ignore a few
    large values among many zeros. ``least_error`` is a lower bound for the mean's standard error.
    """
    of_blocks = np.asarray(values, dtype=np.float64)
    n_blocks = len(of_blocks)
    if n_blocks < FEWEST_VALUES:
        return -math.inf, math.inf
    return around_mean(of_blocks, _mean_critical(n_blocks, alpha / (_MEAN + _EARLY)), least_error)


def around_mean(values: _Array, critical: float, least_error: float = 0.0) -> tuple[float, float]:
    """Return the limits ``critical`` standard errors, at least ``least_error``, from the mean."""
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    half_width = critical * max(error, least_error)
    return mean - half_width, mean + half_width


def p_value(log_ratios: ArrayLike, spread: Spread | None = None) -> float | None:
    """Return the least ``alpha`` at which the interval of ``log_ratios``, shape (n,), excludes 0.

    ``spread`` is that of the values unless given. None below 3 blocks. It is valid at any look at
    which the user stops (Johari, Koomen, Pekelis and Walsh, "Always Valid Inference", Operations
    Research 70, 2022).
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    n_blocks = len(values)
    if n_blocks < FEWEST_VALUES:
        return None
    spread = spread or _own_spread(values)
    of_mean = abs(float(_over(values.mean(), spread.sd / math.sqrt(n_blocks))))
    if n_blocks < FIRST_LOOK:
        tails = 2 * float(scipy.special.stdtr(n_blocks - 1 + spread.borrowed, -of_mean))
        return min(1.0, tails * _EARLY_LOOKS / _EARLY)
    p = _probability(of_mean, n_blocks, FIRST_LOOK, spread.borrowed) / _MEAN
    if n_blocks >= FIRST_RANKS:
        of_ranks = abs(float(_t(_signed_scores(values))))
        p = min(p, _probability(of_ranks, n_blocks, FIRST_RANKS) / _RANKS)
    return min(1.0, p)


def sides(log_ratios: ArrayLike, alpha: float) -> NDArray[np.int8]:
    """Return the side of 0 on which the interval lies after each block: 1, -1, or 0 for both.

    The shape is that of ``log_ratios``, (..., n), with blocks along the last axis.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    found = np.zeros(values.shape, dtype=np.int8)
    for n_blocks in range(FEWEST_VALUES, values.shape[-1] + 1):
        so_far = values[..., :n_blocks]
        t = _t(so_far)
        side = np.sign(t) * (np.abs(t) > _mean_critical(n_blocks, alpha))
        if n_blocks >= FIRST_RANKS:
            t = _t(_signed_scores(so_far))
            by_ranks = np.sign(t) * (np.abs(t) > _rank_critical(n_blocks, alpha))
            side = np.where(side == 0, by_ranks, side)
        found[..., n_blocks - 1] = side
    return found


def critical_t(n_blocks: int, alpha: float, borrowed: float = 0.0) -> float:
    """Return about half the interval's width in errors of the mean; infinite below 3 blocks."""
    of_mean = _mean_critical(n_blocks, alpha, borrowed)
    return min(of_mean, _rank_critical(n_blocks, alpha)) if n_blocks >= FIRST_RANKS else of_mean


@lru_cache(maxsize=65536)
def _mean_critical(n_blocks: int, alpha: float, borrowed: float = 0.0) -> float:
    if n_blocks < FEWEST_VALUES:
        return math.inf
    if n_blocks < FIRST_LOOK:
        freedom = n_blocks - 1 + borrowed
        return -float(scipy.special.stdtrit(freedom, alpha * _EARLY / _EARLY_LOOKS / 2))
    return _boundary(n_blocks, FIRST_LOOK, alpha * _MEAN, borrowed)


@lru_cache(maxsize=65536)
def _rank_critical(n_blocks: int, alpha: float) -> float:
    return _boundary(n_blocks, FIRST_RANKS, alpha * _RANKS)


def _t(values: _Array) -> _Array:
    """Return the t statistics along the last axis; infinite without spread, 0 without a mean."""
    return _over(values.mean(axis=-1), values.std(axis=-1, ddof=1) / math.sqrt(values.shape[-1]))


def _own_spread(values: _Array) -> Spread:
    return Spread(float(values.std(ddof=1)), 0.0)


def _over(means: ArrayLike, errors: ArrayLike) -> _Array:
    means = np.asarray(means)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(means == 0, 0.0, means / errors))


def _signed_scores(values: _Array) -> _Array:
    """Return normal scores of the ranks of the sizes, with the signs of the values."""
    sizes = np.abs(values)
    ordered = np.sort(sizes, axis=-1)
    if (ordered[..., 1:] == ordered[..., :-1]).any():
        ranks = scipy.stats.rankdata(sizes, axis=-1)
    else:  # in a third of the time
        ranks = 1 + sizes.argsort(axis=-1).argsort(axis=-1).astype(np.float64)
    scores = scipy.special.ndtri(0.5 + ranks / (2 * (values.shape[-1] + 1)))
    return np.asarray(np.sign(values) * scores)


def _rank_limits(values: _Array, alpha: float) -> tuple[float, float]:
    """Return the least and the largest shift that is not rejected; infinite where none is."""
    critical = _rank_critical(len(values), alpha)
    return _least_shift(values, critical), -_least_shift(-values, critical)


def _least_shift(values: _Array, critical: float) -> float:
    """Return the least shift of ``values`` at which the statistic is at most ``critical``.

    The statistic falls in steps as the shift grows. The shift returned is the last one known to be
    too small, so that rounding does not exclude values equal to it, such as ratios of 1.
    """
    above, below = float(values.min()) - max(float(np.ptp(values)), 1.0), float(values.max())
    if float(_t(_signed_scores(values - above))) <= critical:
        return -math.inf
    for _ in range(8):
        shifts = np.linspace(above, below, 65)
        is_above = _t(_signed_scores(values - shifts[:, np.newaxis])) > critical
        place = int(is_above.argmin())
        above, below = float(shifts[place - 1]), float(shifts[place])
    return above


def _boundary(n_blocks: int, first: int, alpha: float, borrowed: float = 0.0) -> float:
    """Return the t that a mixture from look ``first`` ever exceeds with probability ``alpha``."""
    grown = math.expm1((_log_level(first, alpha) + math.log(n_blocks)) / (n_blocks + borrowed))
    return math.sqrt((n_blocks - 1 + borrowed) * grown)


@lru_cache(maxsize=256)
def _log_level(first: int, alpha: float) -> float:
    """Return the logarithm of the square of the critical level."""
    high = 1.0
    while _crossing(high, first) > alpha:
        high *= 2
    at = float(scipy.optimize.brentq(lambda x: _crossing(x, first) - alpha, 0.0, high, xtol=1e-12))
    return first * math.log1p(at * at / (first - 1)) - math.log(first)


def _probability(t: float, n_blocks: int, first: int, borrowed: float = 0.0) -> float:
    """Return the probability that the mixture ever has its value at ``t`` after ``n_blocks``."""
    grown = math.log1p(t * t / (n_blocks - 1 + borrowed))
    log_level = (n_blocks + borrowed) * grown - math.log(n_blocks)
    exponent = min((log_level + math.log(first)) / first, 500.0)
    return 1.0 if exponent <= 0 else _crossing(math.sqrt((first - 1) * math.expm1(exponent)), first)


def _crossing(at: float, first: int) -> float:
    """Return the probability that the mixture ever has its value at ``at`` at the first look."""
    freedom = first - 1
    tail = float(scipy.special.stdtr(freedom, -at))
    scale = math.exp(math.lgamma(first / 2) - math.lgamma(freedom / 2))
    density = scale / math.sqrt(math.pi * freedom) * math.pow(1 + at * at / freedom, -first / 2)
    return 2 * (tail + at * density)
