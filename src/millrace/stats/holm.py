"""Many questions at once: which of several differences are there, so that one wrong answer among
all of them is rare.

Holm's step-down procedure ("A simple sequentially rejective multiple test procedure", Scandinavian
Journal of Statistics 6, 1979). It holds however the questions depend on each other, as parts of one
time do, and loses less than Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p-values adjusted for their number, in their order: those up to alpha are there, and the
    probability that any of them is not is alpha at most.

    Raises ValueError for a p-value outside 0 to 1.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("a p-value is from 0 to 1")
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return tuple(float(value) for value in adjusted)
