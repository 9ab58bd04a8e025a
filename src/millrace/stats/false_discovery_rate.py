"""Many comparisons at once: of those that are called different, few are not.

Benjamini and Yekutieli's step-up procedure ("The Control of the False Discovery Rate in Multiple
Testing under Dependency", Annals of Statistics 29, 2001, theorem 1.3). Comparisons with one base
depend on each other, and those of one host's workloads too; this one holds however they do, where
Benjamini and Hochberg's asks for independence or the like. Its p-values may be those of any looks
(``sequential.p_value``), each comparison stopped at one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def benjamini_yekutieli(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p-values adjusted for their number, in their order: of those up to alpha, the expected
    share that is there by chance is alpha at most.

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
