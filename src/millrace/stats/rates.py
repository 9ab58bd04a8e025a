"""Whether two treatments that took turns failed at the same rate, from counts of few blocks.

Errors come in bursts (a deadlock breeds another), so a test that takes them for independent draws
finds a difference between a thing and itself. The unit of evidence is therefore the block here
too: Student's t on the blocks' differences of rates, which holds for any rates that are drawn
alike on both sides, since their differences are then symmetric about 0 (heavier tails make it more
careful). A single wild block is beyond that test; what differs grossly is put to Fisher's exact
test (*The Design of Experiments*, 1935) on the sums as well: whatever made it so, trials that
differ by a hundredth of their requests did not do the same work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

NEGLIGIBLE = 0.001  # a twentieth of the usual margin
GROSS = 0.01


@dataclass(frozen=True)
class RateDifference:
    """The mean rates of base and candidate over the blocks, and whether they differ."""

    base: float
    candidate: float
    differs: bool


def compare_rates(
    base: Sequence[tuple[int, int]], candidate: Sequence[tuple[int, int]], *, alpha: float = 0.05
) -> RateDifference:
    """Compare hits / tries; element *i* of both is the (hits, tries) of the same block.

    Rates differ where their means do by more than 0.1 percentage points, and either the interval
    of that difference over the blocks excludes 0, or the means differ by more than 1 percentage
    point and Fisher's test of all hits and tries rejects equality. Each test has half of ``alpha``,
    so that like rates are told apart with a probability of ``alpha`` at most. Trials that did not
    try anything have a rate of 0.

    Raises ValueError for unequal lengths, no block, or more hits than tries.
    """
    if len(base) != len(candidate) or not base:
        raise ValueError(f"{len(base)} blocks of the base, {len(candidate)} of the candidate")
    if any(not 0 <= hits <= tries for hits, tries in (*base, *candidate)):
        raise ValueError("hits are between 0 and the tries")
    rates = np.asarray(
        [[hits / tries if tries else 0.0 for hits, tries in side] for side in (base, candidate)]
    )
    means = rates.mean(axis=1)
    difference = abs(float(means[1] - means[0]))
    differs = difference > NEGLIGIBLE and (
        _beyond_spread(rates[1] - rates[0], alpha / 2)
        or (difference > GROSS and _fisher(base, candidate) < alpha / 2)
    )
    return RateDifference(float(means[0]), float(means[1]), differs)


def _beyond_spread(differences: NDArray[np.float64], alpha: float) -> bool:
    n_blocks = len(differences)
    if n_blocks < 2:
        return False
    critical = float(stats.t.ppf(1 - alpha / 2, n_blocks - 1))
    half_width = critical * float(np.std(differences, ddof=1)) / math.sqrt(n_blocks)
    return abs(float(np.mean(differences))) > half_width


def _fisher(base: Sequence[tuple[int, int]], candidate: Sequence[tuple[int, int]]) -> float:
    table = np.asarray(
        [
            [sum(hits for hits, _ in side), sum(tries - hits for hits, tries in side)]
            for side in (base, candidate)
        ]
    )
    return float(stats.fisher_exact(table).pvalue)
