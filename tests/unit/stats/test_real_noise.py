"""Test false positives on recorded noise of real benchmarks, in which nothing differs.

The data are not part of the project (no licence to redistribute them); without them, skip.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.trial_noise import DATA, Pool, disjoint_sides, one_after_the_other, pairs, pools
from millrace.stats.ratio import paired_ratio
from millrace.stats.sequential import FIRST_LOOK, sides
from millrace.stats.trend import classify_trend

SPLITS = 4
ALPHA = 0.05
BLOCKS = 40
QUIET, SLOW_DRIFT = (0.0, 0.0), (2.0, 0.97)


@pytest.fixture(scope="module")
def forks() -> list[NDArray[np.float64]]:
    """Return the mean of each of ten forks (restarts), a row per benchmark that has all ten."""
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
    """Return the share of A/B comparisons from disjoint forks whose interval excludes 1."""
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


@pytest.fixture(scope="module")
def known() -> list[Pool]:
    if not DATA.exists():
        pytest.skip(f"recorded noise is not on this machine: {DATA.name}")
    return pools()


def in_turns(known: list[Pool], drift: tuple[float, float]) -> NDArray[np.float64]:
    source = np.random.default_rng(18)
    return np.concatenate(
        [pairs(pool, source, runs=5, blocks=BLOCKS, drift=drift) for pool in known]
    )


@pytest.mark.parametrize(("drift", "goal"), [(QUIET, 0.05), (SLOW_DRIFT, 0.06)])
def test_looking_after_every_block_keeps_alpha(
    known: list[Pool], drift: tuple[float, float], goal: float
) -> None:
    assert (sides(in_turns(known, drift), ALPHA) != 0).any(axis=1).mean() <= goal


def test_a_t_test_after_every_block_would_not(known: list[Pool]) -> None:
    drawn = in_turns(known, QUIET)
    looks = range(FIRST_LOOK, BLOCKS + 1)
    p_values = np.stack([stats.ttest_1samp(drawn[:, :n], 0.0, axis=1).pvalue for n in looks])
    assert (p_values < ALPHA).any(axis=0).mean() > 0.15


def test_pooled_iterations_would_not_at_all(known: list[Pool]) -> None:
    source = np.random.default_rng(20)
    sides_of = [found for pool in known if (found := disjoint_sides(pool, source)) is not None]
    pooled = [[np.concatenate(side) for side in found] for found in sides_of]
    p_values = np.asarray([stats.ttest_ind(a, b, equal_var=False).pvalue for a, b in pooled])
    assert len(p_values) > 100
    assert (p_values < ALPHA).mean() > 0.4


def test_one_treatment_after_the_other_would_not_either(known: list[Pool]) -> None:
    source = np.random.default_rng(19)
    ratios = np.concatenate(
        [one_after_the_other(pool, source, runs=2, blocks=10, drift=SLOW_DRIFT) for pool in known]
    )
    found = [paired_ratio([1.0] * 10, each.tolist()) for each in np.exp(ratios)]
    wrong = sum((each.low or 0) > 1 or (each.high or 2) < 1 for each in found)
    assert wrong / len(found) > 0.15


@pytest.mark.parametrize(("size", "power", "blocks"), [(0.10, 0.92, 13), (0.05, 0.75, 20)])
def test_differences_are_decided_within_few_blocks(
    known: list[Pool], size: float, power: float, blocks: float
) -> None:
    found = sides(in_turns(known, QUIET) + math.log1p(size), ALPHA)[:, FIRST_LOOK - 1 :]
    decided = (found != 0).any(axis=1)
    stops = np.where(decided, (found != 0).argmax(axis=1), BLOCKS - FIRST_LOOK)
    said = found[np.arange(len(stops)), stops]
    assert (said == 1).mean() >= power
    assert stops.mean() + FIRST_LOOK <= blocks
    assert (said == -1).mean() < 0.005


def test_recorded_noise_is_steady_in_an_order_drawn_by_lot(known: list[Pool]) -> None:
    source = np.random.default_rng(21)
    forks = [np.exp(pool.forks[0]) for pool in known if len(pool.forks[0]) >= 30]
    kinds = [classify_trend(source.permutation(fork)[:30].tolist()).kind for fork in forks]
    assert len(kinds) > 100
    assert sum(kind != "steady" for kind in kinds) <= 0.02 * len(kinds)
