"""Correct several tests for their number.

Holm's step-down procedure ("A simple sequentially rejective multiple test procedure", Scandinavian
Journal of Statistics 6, 1979) controls the probability of any false positive, whatever the
dependence between the tests, and is more powerful than Bonferroni's.

Benjamini and Yekutieli's step-up procedure ("The Control of the False Discovery Rate in Multiple
Testing under Dependency", Annals of Statistics 29, 2001, theorem 1.3) controls the false discovery
rate under any dependence, such as that of comparisons with one base or on one host. The p-values
may be valid at any look (``sequential.p_value``), and comparisons may stop at different looks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class HolmMark(NamedTuple):
    """The result of one test among several; ``adjusted_p`` is None if the test was not made."""

    adjusted_p: float | None
    significant: bool


def benjamini_yekutieli(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted for the false discovery rate; ValueError if one is not in 0 to 1."""
    # scipy.stats has this procedure too, but importing it takes longer than writing a report.
    numbers = np.arange(1, len(p_values) + 1)
    values, order = _ordered(p_values)
    stepped = values[order] * (len(values) / numbers) * np.sum(1 / numbers)
    return _placed(np.minimum.accumulate(stepped[::-1])[::-1], order)


def surviving_p(p_values: Sequence[float], number: int, alpha: float) -> float:
    """Return the largest p-value of test ``number`` with an adjusted p-value of at most ``alpha``.

    The adjustment is ``benjamini_yekutieli``; the other ``p_values`` stay as they are.
    """
    others = np.sort(np.delete(np.asarray(p_values, dtype=np.float64), number))
    ranks = np.arange(1, len(p_values) + 1)
    limits = alpha * ranks / (len(p_values) * np.sum(1 / ranks))
    # A rank can be reached where enough other tests lie below its limit.
    reached = np.searchsorted(others, limits, side="right") >= ranks - 1
    return float(limits[reached][-1])


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted by Holm's procedure; raise ValueError if one is not in 0 to 1."""
    values, order = _ordered(p_values)
    stepped = values[order] * np.arange(len(values), 0, -1)
    return _placed(np.maximum.accumulate(stepped), order)


def holm_marks(p_values: Sequence[float | None], alpha: float) -> tuple[HolmMark, ...]:
    """Mark the tests whose adjusted p-value is at most ``alpha``; None: test was not made."""
    asked = [number for number, p_value in enumerate(p_values) if p_value is not None]
    adjusted = dict(zip(asked, holm([p for p in p_values if p is not None]), strict=True))
    return tuple(
        HolmMark(p := adjusted.get(number), p is not None and p <= alpha)
        for number in range(len(p_values))
    )


def _ordered(p_values: Sequence[float]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("a p-value must be from 0 to 1")
    return values, np.argsort(values, kind="stable")


def _placed(stepped: npt.NDArray[np.float64], order: npt.NDArray[np.intp]) -> tuple[float, ...]:
    """Return adjusted p-values, given in ascending order, in the order of the tests."""
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(float(value) for value in adjusted)
