"""Estimate the ratio of two treatments that took turns in blocks.

Whatever disturbs a whole block (a hotter CPU, a busier host) multiplies both of its trials, so it
cancels in the block's own ratio. The unit of evidence is therefore the block: one log-ratio each. A
block design with pairs is described by Box, Hunter and Hunter, *Statistics for Experimenters* (2nd
ed., 2005, ch. 3); averaging ratios by their geometric mean, so that it does not matter which side
is called the base, by Fleming and Wallace (CACM 29(3), 1986).

Values that are rounded, to whole numbers say, agree by chance, and blocks without a spread would
have an interval without a width. The interval is therefore never narrower than what the rounding of
both sides can do to the mean ratio at most: a common error of all blocks does not show as spread.
Where the values do spread over several units, rounding errors are independent and part of it.

The interval is Student's for a number of blocks that was fixed beforehand, and that of
``sequential`` where the user may look after every block and stop. ``shared_noise`` moderates the
spread of Student's by that of a run's other comparisons.

Instructions of a statement do not depend on what else the host does, so nothing that two starts
share would cancel in a pair; pairing would only halve the degrees of freedom. ``unpaired_ratio``
compares such values by Welch's interval ("The Generalization of 'Student's' Problem when several
different population variances are involved", Biometrika 34, 1947) on the difference of mean
logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats import sequential
from millrace.stats.sequential import Spread

# Looks: one, at a number of blocks fixed beforehand, or any number.
Looks = Literal["once", "any"]
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class RatioEstimate:
    """A ratio candidate / base with its confidence interval.

    ``n_pairs`` is the number of blocks; for unpaired values, the number of values of the smaller
    side. ``low`` and ``high`` are None if there are too few pairs for an interval: it needs two, or
    three for any number of looks. ``log_sd`` is the standard deviation of the log-ratios (0.01 is
    about 1 %), None for a single pair or unpaired values. ``borrowed`` is the number of degrees of
    freedom from other evidence: from other comparisons of the run if ``shares``, and from
    ``earlier_runs``. The interval and ``p_value`` are valid for ``looks``. ``p_value`` is
    two-sided, for a ratio of 1; it is at most ``1 - confidence`` if the interval excludes 1, and
    None without an interval. ``rounding`` is the largest effect of rounded values on the logarithm
    of the ratio.
    """

    ratio: float
    low: float | None
    high: float | None
    n_pairs: int
    confidence: float
    log_sd: float | None
    looks: Looks = "once"
    p_value: float | None = None
    borrowed: float = 0.0
    shares: bool = False
    earlier_runs: int = 0
    rounding: float = 0.0

    @property
    def excludes_1(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def is_as_wide_as_rounding(self) -> bool:
        """Return whether the rounding of the values alone determines the interval's width."""
        if self.low is None or self.high is None or not self.rounding:
            return False
        return math.log(self.high / self.low) <= 2 * self.rounding * (1 + 1e-9)

    def is_beyond(self, margin: float) -> bool:
        """Return whether the ratio is beyond a margin on either side of 1, significant or not."""
        return max(self.ratio, 1 / self.ratio) > 1 + margin


def paired_ratio(
    base: Sequence[float],
    candidate: Sequence[float],
    *,
    confidence: float = _CONFIDENCE,
    looks: Looks = "once",
    unit_of_last_digit: float = 0.0,
) -> RatioEstimate:
    """Estimate the geometric-mean ratio candidate / base over blocks, with its interval.

    ``base`` and ``candidate`` have shape (n_blocks,), in any one positive unit; element *i* of both
    is from the same block. The interval is on ``log(candidate / base)``, taken back through
    ``exp``: Student's ("The Probable Error of a Mean", Biometrika 6, 1908) for one look, for any
    number of them that of ``sequential``. Outliers may move the mean out of the latter; the ratio
    is then the nearest end of the interval. ``unit_of_last_digit`` is that of rounded values.

    Raises ValueError for unequal lengths, no pair, or a value that is not positive and finite.
    """
    values = log_ratios(base, candidate)
    centre, n_pairs = float(np.mean(values)), len(values)
    if n_pairs == 1:
        return RatioEstimate(from_log(centre), None, None, 1, confidence, None, looks)
    log_sd = float(np.std(values, ddof=1))
    found = _estimated(values, Spread(log_sd, 0.0), confidence, looks)
    return _widened(found, base, candidate, unit_of_last_digit) if unit_of_last_digit else found


def unpaired_ratio(
    base: Sequence[float], candidate: Sequence[float], *, confidence: float = _CONFIDENCE
) -> RatioEstimate:
    """Estimate the ratio of ``candidate``, shape (m,), to ``base``, shape (n,), of any one unit.

    Raises ValueError for a side without values, or a value that is not positive and finite.
    """
    sides = [np.asarray(each, dtype=np.float64) for each in (base, candidate)]
    if not all(map(len, sides)):
        raise ValueError("a ratio needs at least one value on each side")
    if not all(np.isfinite(each).all() and (each > 0).all() for each in sides):
        raise ValueError("the values of a ratio must be positive and finite")
    logs = [np.log(each) for each in sides]
    centre, fewest = float(logs[1].mean() - logs[0].mean()), min(map(len, sides))
    if fewest < 2:
        return RatioEstimate(from_log(centre), None, None, fewest, confidence, None)
    squares = [float(each.var(ddof=1)) / len(each) for each in logs]
    error = math.sqrt(sum(squares))
    half_width, p_value = 0.0, float(centre == 0)
    if error:
        freedom = sum(squares) ** 2 / sum(
            square**2 / (len(each) - 1) for square, each in zip(squares, logs, strict=True)
        )
        half_width = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * error
        p_value = _p_value(centre, error, freedom)
    low, high = from_log(centre - half_width), from_log(centre + half_width)
    return RatioEstimate(from_log(centre), low, high, fewest, confidence, None, p_value=p_value)


def _widened(
    found: RatioEstimate, base: Sequence[float], candidate: Sequence[float], unit: float
) -> RatioEstimate:
    """Widen an interval to the rounding error of the mean log-ratio, half a unit on each side."""
    shares = np.asarray([unit / np.asarray(side) for side in (base, candidate)])
    error = float(shares.mean(axis=1).sum()) / 2
    log_sd = None
    if found.log_sd is not None:
        log_sd = max(found.log_sd, math.sqrt(float((shares**2).mean(axis=1).sum()) / 12))
    if found.low is None or found.high is None:
        return replace(found, log_sd=log_sd, rounding=error)
    low = min(found.low, from_log(math.log(found.ratio) - error))
    high = max(found.high, from_log(math.log(found.ratio) + error))
    p_value = 1.0 if low <= 1 <= high and not found.low <= 1 <= found.high else found.p_value
    return replace(found, low=low, high=high, log_sd=log_sd, p_value=p_value, rounding=error)


def moderated_ratio(
    base: Sequence[float], candidate: Sequence[float], spread: Spread, looks: Looks
) -> RatioEstimate:
    """Estimate as ``paired_ratio`` does, with a ``spread`` that includes other evidence.

    Raises ValueError for unequal lengths, no pair, or a value that is not positive and finite.
    """
    return _estimated(log_ratios(base, candidate), spread, _CONFIDENCE, looks)


def _estimated(
    values: NDArray[np.float64], spread: Spread, confidence: float, looks: Looks
) -> RatioEstimate:
    centre, n_pairs = float(np.mean(values)), len(values)
    p_value: float | None
    if looks == "once":
        error, freedom = spread.sd / math.sqrt(n_pairs), n_pairs - 1 + spread.borrowed
        half_width = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * error
        low, high = centre - half_width, centre + half_width
        p_value = _p_value(centre, error, freedom)
    else:
        low, high = sequential.interval(values, 1 - confidence, spread)
        p_value = sequential.p_value(values, spread)
        centre = min(max(centre, low), high)
    bounded = math.isfinite(low)
    return RatioEstimate(
        ratio=from_log(centre),
        low=from_log(low) if bounded else None,
        high=from_log(high) if bounded else None,
        n_pairs=n_pairs,
        confidence=confidence,
        log_sd=spread.sd,
        looks=looks,
        p_value=p_value,
        borrowed=spread.borrowed,
    )


def _p_value(mean: float, error: float, freedom: float) -> float:
    """Return Student's two-sided p-value.

    Values without any spread have p-value 1 for a mean of 0, and 0 for any other mean.
    """
    if error == 0:
        return float(mean == 0)
    return 2 * float(scipy.special.stdtr(freedom, -abs(mean) / error))


def log_ratios(base: Sequence[float], candidate: Sequence[float]) -> NDArray[np.float64]:
    """Return ``log(candidate / base)`` of each block, shape (n_blocks,).

    Raises ValueError for unequal lengths, no pair, or a value that is not positive and finite.
    """
    if len(base) != len(candidate):
        raise ValueError(f"{len(base)} base values, but {len(candidate)} candidate values")
    if not base:
        raise ValueError("a ratio needs at least one pair of values")
    pairs = np.asarray([base, candidate], dtype=np.float64)
    if not (np.isfinite(pairs).all() and (pairs > 0).all()):
        raise ValueError("the values of a ratio must be positive and finite")
    return np.asarray(np.log(pairs[1]) - np.log(pairs[0]), dtype=np.float64)


def from_log(log_ratio: float) -> float:
    """Return the ratio, clipped well within the range of floats."""
    return math.exp(min(max(log_ratio, -700.0), 700.0))
