"""Control the false discovery rate of many comparisons.

Benjamini and Yekutieli's step-up procedure ("The Control of the False Discovery Rate in Multiple
Testing under Dependency", Annals of Statistics 29, 2001, theorem 1.3). Comparisons with one base
depend on each other, and so do those of one host's workloads. This procedure holds under any
dependence; Benjamini and Hochberg's requires independence or positive dependence. The p-values may
be valid at any look (``sequential.p_value``), and each comparison may stop at a look of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def benjamini_yekutieli(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values, in their order, adjusted for the false discovery rate.

    Among comparisons with an adjusted p-value up to alpha, the expected share of false discoveries
    is alpha at most.

    Raises ValueError for a p-value outside 0 to 1.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("a p-value is from 0 to 1")
    ranks = np.arange(1, len(values) + 1)
    largest_first = np.argsort(-values, kind="stable")
    stepped = values[largest_first] * (1 / ranks).sum() * len(values) / ranks[::-1]
    adjusted = np.empty_like(values)
    adjusted[largest_first] = np.minimum(np.minimum.accumulate(stepped), 1.0)
    return tuple(float(value) for value in adjusted)
