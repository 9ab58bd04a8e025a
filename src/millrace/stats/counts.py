"""Estimate the uncertainty of counts of samples from the counts themselves.

A count of independent events is Poisson's. The interval of its expectation is the exact one of
Garwood (Biometrika 28, 1936); that of a difference of two combines both ends of each (Zou and
Donner, Statistics in Medicine 27, 2008: the method of variance estimates recovery), which holds for
small counts where a normal approximation does not.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_TAIL = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class CountDifferences:
    """Differences B - A of scaled counts, with their intervals; all of shape (k,)."""

    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def count_limits(counts: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the 95 % limits of ``counts``, shape (k,); raise ValueError for one below 0."""
    seen = np.asarray(counts, dtype=np.float64)
    if (seen < 0).any():
        raise ValueError("a count is not below 0")
    low = np.where(seen > 0, scipy.special.gammaincinv(np.maximum(seen, 1), _TAIL), 0.0)
    high = np.asarray(scipy.special.gammainccinv(seen + 1, _TAIL), dtype=np.float64)
    return low, high


def count_differences(
    a_counts: ArrayLike, b_counts: ArrayLike, *, a_unit: float, b_unit: float
) -> CountDifferences:
    """Return ``b_counts * b_unit - a_counts * a_unit``, shape (k,), with 95 % intervals."""
    a, b = np.asarray(a_counts, dtype=np.float64), np.asarray(b_counts, dtype=np.float64)
    (a_low, a_high), (b_low, b_high) = count_limits(a), count_limits(b)
    difference = b * b_unit - a * a_unit
    below = np.hypot((b - b_low) * b_unit, (a_high - a) * a_unit)
    above = np.hypot((b_high - b) * b_unit, (a - a_low) * a_unit)
    return CountDifferences(difference, difference - below, difference + above)
