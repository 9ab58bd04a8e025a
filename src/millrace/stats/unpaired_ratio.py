"""Estimate the ratio of two treatments whose values do not belong to blocks.

Instructions of a statement do not depend on what else the host does, so nothing that two starts
share would cancel in a pair; pairing would only halve the degrees of freedom. The interval is
Welch's ("The Generalization of 'Student's' Problem when several different population variances are
involved", Biometrika 34, 1947) on the difference of mean logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.ratio import from_log


@dataclass(frozen=True)
class UnpairedRatio:
    """A ratio candidate / base of geometric means, with its confidence interval.

    ``low``, ``high`` and ``p_value``, two-sided for a ratio of 1, are None where a side has a
    single value, which says nothing about its own uncertainty.
    """

    ratio: float
    low: float | None
    high: float | None
    p_value: float | None = None

    @property
    def excludes_1(self) -> bool:
        """Return whether the interval excludes 1; False where there is none."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def unpaired_ratio(
    base: Sequence[float], candidate: Sequence[float], *, confidence: float = 0.95
) -> UnpairedRatio:
    """Estimate the ratio of ``candidate``, shape (m,), to ``base``, shape (n,), of any one unit.

    Raises ValueError for a side without values, or a value that is not positive and finite.
    """
    a, b = _logs(base), _logs(candidate)
    centre = float(b.mean() - a.mean())
    if min(len(a), len(b)) < 2:
        return UnpairedRatio(from_log(centre), None, None)
    squares = [float(each.var(ddof=1)) / len(each) for each in (a, b)]
    error = math.sqrt(sum(squares))
    if error == 0:
        ratio = from_log(centre)
        return UnpairedRatio(ratio, ratio, ratio, p_value=float(centre == 0))
    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(each) - 1) for square, each in zip(squares, (a, b), strict=True)
    )
    half_width = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * error
    return UnpairedRatio(
        from_log(centre),
        from_log(centre - half_width),
        from_log(centre + half_width),
        p_value=2 * float(scipy.special.stdtr(freedom, -abs(centre) / error)),
    )


def _logs(values: Sequence[float]) -> NDArray[np.float64]:
    each = np.asarray(values, dtype=np.float64)
    if not len(each):
        raise ValueError("no value to take a mean of")
    if not (np.isfinite(each).all() and (each > 0).all()):
        raise ValueError("a ratio needs values that are positive and finite")
    return np.log(each)
