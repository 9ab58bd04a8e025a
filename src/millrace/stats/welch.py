"""Test two samples of unequal spread for different means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy


def welch_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of Welch's test (Biometrika 34, 1947) of shapes (n,) and (m,).

    Where neither has any spread it is 1 for equal means and 0 for others. Raises ValueError for
    fewer than 2 values on a side.
    """
    if min(len(a), len(b)) < 2:
        raise ValueError("one value says nothing about its own spread")
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return float(a[0] == b[0])
    return float(scipy.stats.ttest_ind(a, b, equal_var=False).pvalue)
