"""Many questions at once: which of several differences are there, so that one wrong answer among
all of them is rare.

Holm's step-down procedure ("A simple sequentially rejective multiple test procedure", Scandinavian
Journal of Statistics 6, 1979). It holds however the questions depend on each other, as parts of one
time do, and loses less than Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class HolmMark(NamedTuple):
    """What is said of one question among several; ``adjusted_p`` is None for one not asked."""

    adjusted_p: float | None
    significant: bool


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


def holm_marks(p_values: Sequence[float | None], alpha: float) -> tuple[HolmMark, ...]:
    """Of each question its adjusted p-value, and whether that is at most ``alpha``; those that are
    None were not asked."""
    asked = [number for number, p_value in enumerate(p_values) if p_value is not None]
    adjusted = dict(zip(asked, holm([p for p in p_values if p is not None]), strict=True))
    return tuple(
        HolmMark(p := adjusted.get(number), p is not None and p <= alpha)
        for number in range(len(p_values))
    )
