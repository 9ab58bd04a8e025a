"""Estimate arithmetic means of trials, and differences of means, with confidence intervals.

Times of an operation's parts add up, so they are averaged as they are, not as logarithms. The
interval is Student's ("The Probable Error of a Mean", Biometrika 6, 1908).

Values counted in samples carry a counting error: three blocks that happen to count 1, 1 and 1 have
no spread and would seem certain. ``least_error`` is the standard error of the counting, which is
known and therefore normal: a lower bound for the width of every interval and for every p-value.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from millrace.stats import sequential
from millrace.stats.ratio import Looks

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over ``n`` values with its confidence interval, in the values' unit.

    ``p_value`` is two-sided, for a mean of 0. It and the limits are None for a single value, which
    says nothing about its own uncertainty.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    confidence: float
    p_value: float | None

    @property
    def excludes_0(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def mean_estimate(values: Sequence[float], *, least_error: float = 0.0) -> MeanEstimate:
    """Estimate the mean of ``values``, shape (n,), in any unit; ``least_error`` is in the same.

    Raises ValueError for no value, or one that is not finite.
    """
    return mean_estimates([values], least_errors=[least_error])[0]


def mean_limits(
    values: ArrayLike, alpha: float, looks: Looks, *, least_error: float = 0.0
) -> tuple[float, float]:
    """Return the interval of the mean of ``values``, shape (n,), with error probability ``alpha``.

    For one look it is Student's, for any number of looks that of ``sequential``; infinite where
    there are too few values. ``least_error`` is a lower bound for the mean's standard error. All
    are in the unit of the values.
    """
    if looks == "any":
        return sequential.mean_interval(values, alpha, least_error=least_error)
    each = np.asarray(values, dtype=np.float64)
    if len(each) < 2:
        return -math.inf, math.inf
    critical = float(scipy.special.stdtrit(len(each) - 1, 1 - alpha / 2))
    return sequential.around_mean(each, critical, least_error)


@dataclass(frozen=True)
class OwnError:
    """Standard errors of k means, shape (k,), from a source that is independent of the values.

    They are in the unit of the means, and were estimated with ``freedom`` degrees of freedom.
    """

    errors: NDArray[np.float64]
    freedom: int


def mean_estimates(
    values: ArrayLike, *, least_errors: ArrayLike = 0.0, further: Sequence[OwnError] = ()
) -> tuple[MeanEstimate, ...]:
    """Estimate the mean of each row of ``values``, shape (k, n), as ``mean_estimate`` does.

    ``further`` errors are added to those of the values; their degrees of freedom are weighted by
    their sizes (Welch, "The Generalization of 'Student's' Problem ...", Biometrika 34, 1947).

    Raises ValueError for rows without a value, or a value that is not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError("a mean needs at least one value")
    if not np.isfinite(rows).all():
        raise ValueError("the values of a mean must be finite")
    count = rows.shape[1]
    means = rows.mean(axis=1)
    if count == 1:
        return tuple(MeanEstimate(float(m), None, None, 1, _CONFIDENCE, None) for m in means)
    errors = rows.std(axis=1, ddof=1) / math.sqrt(count)
    least = np.broadcast_to(np.asarray(least_errors, dtype=np.float64), means.shape)
    upper = (1 + _CONFIDENCE) / 2
    freedom = np.full(means.shape, float(count - 1))
    if further:
        errors, freedom = _together([OwnError(errors, count - 1), *further])
    half_widths = np.maximum(
        scipy.special.stdtrit(freedom, upper) * errors, scipy.special.ndtri(upper) * least
    )
    by_blocks = _p_values(means, errors, lambda x: scipy.special.stdtr(freedom[errors > 0], x))
    by_counting = np.where(least > 0, _p_values(means, least, scipy.special.ndtr), 0.0)
    return tuple(
        MeanEstimate(float(m), float(m - h), float(m + h), count, _CONFIDENCE, float(p))
        for m, h, p in zip(means, half_widths, np.maximum(by_blocks, by_counting), strict=True)
    )


def _together(parts: Sequence[OwnError]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the errors of sums of independent parts, and their degrees of freedom."""
    squares = np.asarray([part.errors**2 for part in parts])
    total = squares.sum(axis=0)
    weights = np.divide(squares, total, out=np.zeros_like(squares), where=total > 0)
    each = np.asarray([[part.freedom] for part in parts])
    inverse = (weights**2 / each).sum(axis=0)
    fewest = float(each.min())
    return np.sqrt(total), np.divide(
        1.0, inverse, out=np.full_like(total, fewest), where=inverse > 0
    )


def _p_values(
    means: NDArray[np.float64],
    errors: NDArray[np.float64],
    distribution: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return two-sided p-values. Without spread they are 1 for a mean of 0, and 0 for others."""
    found = np.where(means == 0, 1.0, 0.0)
    spread = errors > 0
    found[spread] = 2 * distribution(-np.abs(means[spread] / errors[spread]))
    return found


def complete_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one of the values is None."""
    known = list(values)
    return None if None in known else sum(filter(None, known))


def welch_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's test (Biometrika 34, 1947); shapes (n,) and (m,).

    If neither side has a spread, it is 1 for equal means and 0 for others. Raises ValueError for
    fewer than 2 values on a side.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError("a spread needs at least two values")
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return float(a[0] == b[0])
    return float(scipy.stats.ttest_ind(a, b, equal_var=False).pvalue)
