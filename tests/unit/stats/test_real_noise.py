"""False positives on recorded noise of real benchmarks: nothing differs, so nothing may be found.

The data are not part of the project (no licence to redistribute them); without them, skip.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from millrace.stats import paired_ratio

DATA = Path(__file__).parents[3].parent / "shared" / "data" / "trial_noise.npz"
SPLITS = 4
ALPHA = 0.05


@pytest.fixture(scope="module")
def forks() -> list[NDArray[np.float64]]:
    """The mean of each of ten forks (restarts), a row a benchmark that has all ten."""
    if not DATA.exists():
        pytest.skip(f"recorded noise is not on this machine: {DATA.name}")
    recorded = np.load(DATA)
    value, benchmark, fork = recorded["value"], recorded["benchmark"], recorded["fork"]
    means = []
    for name in np.unique(benchmark):
        mine = benchmark == name
        of_forks = [
            float(value[mine & (fork == number)].mean(dtype=np.float64))
            for number in np.unique(fork[mine])
        ]
        if len(of_forks) == 10:
            means.append(np.asarray(of_forks))
    assert len(means) > 100
    return means


def positives(forks: list[NDArray[np.float64]], n_blocks: int, slowdown: float) -> float:
    """Share of A-against-B comparisons, from disjoint forks, whose interval excludes 1."""
    source = np.random.default_rng(17)
    found = 0
    for means in forks:
        for _ in range(SPLITS):
            drawn = source.permutation(means)[: 2 * n_blocks]
            base, candidate = drawn[:n_blocks], drawn[n_blocks:] * slowdown
            estimate = paired_ratio(base.tolist(), candidate.tolist())
            assert estimate.low is not None
            assert estimate.high is not None
            found += estimate.low > 1 or estimate.high < 1
    return found / (len(forks) * SPLITS)


@pytest.mark.parametrize("n_blocks", [3, 5])
def test_false_positives_stay_below_alpha(forks: list[NDArray[np.float64]], n_blocks: int) -> None:
    # Splits of one benchmark are not independent: the bound is that of one split a benchmark.
    chance = 1.645 * math.sqrt(ALPHA * (1 - ALPHA) / len(forks))
    assert positives(forks, n_blocks, 1.0) <= ALPHA + chance


def test_a_large_slowdown_is_found_in_most(forks: list[NDArray[np.float64]]) -> None:
    assert positives(forks, 5, 1.2) >= 0.75
