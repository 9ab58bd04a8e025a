"""Describe the level and spread of one treatment's trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from millrace.stats.ratio import paired_ratio


@dataclass(frozen=True)
class Summary:
    """Level and spread of n positive values, all in the values' unit but ``cv``.

    ``low`` and ``high`` are the 95 % interval of the geometric mean across trials. It includes the
    drift of the host, so overlapping intervals do not mean that two treatments are equal. ``sd`` (n
    - 1 in the denominator), ``cv`` (sd / mean, a fraction), ``low`` and ``high`` are None for a
    single value.
    """

    n: int
    mean: float
    median: float
    geometric_mean: float
    low: float | None
    high: float | None
    minimum: float
    maximum: float
    lower_quartile: float
    upper_quartile: float
    sd: float | None
    cv: float | None

    @property
    def range(self) -> float:
        return self.maximum - self.minimum


def summarise(values: Sequence[float]) -> Summary:
    """Summarise the level and spread of ``values``, shape (n,), positive, in one unit.

    Quartiles are linear between order statistics (Hyndman and Fan 1996, type 7). The geometric mean
    and its interval are those of ``paired_ratio`` against a base of 1. Raises ValueError for no
    value, or one that is not positive and finite.
    """
    level = paired_ratio([1.0] * len(values), values)
    array = np.asarray(values, dtype=np.float64)
    mean = float(np.mean(array))
    sd = float(np.std(array, ddof=1)) if len(array) > 1 else None
    lower, median, upper = (float(q) for q in np.quantile(array, [0.25, 0.5, 0.75]))
    return Summary(
        n=len(array),
        mean=mean,
        median=median,
        geometric_mean=level.ratio,
        low=level.low,
        high=level.high,
        minimum=float(np.min(array)),
        maximum=float(np.max(array)),
        lower_quartile=lower,
        upper_quartile=upper,
        sd=sd,
        cv=None if sd is None else sd / mean,
    )


def sd_limits(sd: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a standard deviation that was estimated from ``n`` normal values.

    It is from the chi-square distribution of their sum of squares (Helmert, Zeitschrift für
    Mathematik und Physik 21, 1876). Raises ValueError for fewer than 2 values.
    """
    if n < 2:
        raise ValueError("a spread needs at least two values")
    tail = (1 - 0.95) / 2
    upper = 2 * float(scipy.special.gammainccinv((n - 1) / 2, tail))
    lower = 2 * float(scipy.special.gammaincinv((n - 1) / 2, tail))
    return sd * math.sqrt((n - 1) / upper), sd * math.sqrt((n - 1) / lower)
