"""Test the interval for any number of looks: its formula, invariances and error rates."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from millrace.stats import sequential
from millrace.stats.ratio import paired_ratio
from millrace.stats.sequential import critical_t, interval, mean_interval, p_value, sides
from tests.support.known import known

ALPHA = 0.05
BLOCKS = 40
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]

values = st.lists(st.integers(-10_000, 10_000).map(lambda x: x / 7919), min_size=3, max_size=30)


def bursts(source: np.random.Generator, shape: tuple[int, int]) -> Array:
    return source.normal(size=shape) * np.where(source.random(shape) < 0.1, 9.0, 1.0)


def growing(source: np.random.Generator, shape: tuple[int, int]) -> Array:
    return source.normal(size=shape) * np.linspace(1, 3, shape[1])


NOISE: dict[str, Draw] = {
    "normal": lambda source, shape: source.normal(size=shape),
    "uniform": lambda source, shape: source.uniform(-1, 1, size=shape),
    "heavy tails": lambda source, shape: source.standard_t(1.5, size=shape),
    "outliers": bursts,
    "a growing spread": growing,
}


def student_sides(drawn: Array) -> NDArray[np.bool_]:
    """Return whether Student's interval excludes 0 after each block from the fifth on."""
    looks = range(5, drawn.shape[1] + 1)
    p_values = [stats.ttest_1samp(drawn[:, :blocks], 0.0, axis=1).pvalue for blocks in looks]
    return np.stack(p_values, axis=1) < ALPHA


def test_the_boundary_is_that_of_the_mixture() -> None:
    # The mean gets 38 % of alpha and is looked at from block 5 on.
    at = sequential._mean_critical(5, ALPHA)
    spent = 2 * (stats.t.sf(at, 4) + at * stats.t.pdf(at, 4))
    assert spent == pytest.approx(0.38 * ALPHA)
    level = 5 * math.log1p(at**2 / 4) - math.log(5)
    for blocks in (6, 10, 40, 1000):
        later = sequential._mean_critical(blocks, ALPHA)
        assert blocks * math.log1p(later**2 / (blocks - 1)) - math.log(blocks) == pytest.approx(
            level
        )


def test_looks_before_the_first_are_for_huge_differences() -> None:
    assert critical_t(2, ALPHA) == math.inf
    assert critical_t(3, ALPHA) == pytest.approx(stats.t.isf(ALPHA * 0.005, 2))
    assert critical_t(4, ALPHA) == pytest.approx(stats.t.isf(ALPHA * 0.005, 3))


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.05, 0.5])
def test_more_blocks_of_the_same_spread_see_more(alpha: float) -> None:
    widths = [critical_t(n, alpha) / math.sqrt(n) for n in range(3, 200)]
    assert all(b < a for a, b in itertools.pairwise(widths))


@pytest.mark.parametrize("noise", NOISE)
def test_whoever_looks_after_every_block_is_wrong_as_rarely_as_stated(noise: str) -> None:
    runs = 5_000
    drawn = NOISE[noise](np.random.default_rng(1), (runs, BLOCKS))
    ever = float((sides(drawn, ALPHA) != 0).any(axis=1).mean())
    assert 0.01 < ever <= ALPHA


def test_a_test_for_one_look_would_not_pass() -> None:
    drawn = NOISE["normal"](np.random.default_rng(1), (2_000, BLOCKS))
    assert student_sides(drawn).any(axis=1).mean() > 0.15


@pytest.mark.parametrize("noise", ["normal", "heavy tails"])
def test_the_ranks_alone_keep_their_share_whatever_the_noise(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential, "_mean_critical", lambda n_blocks, alpha: math.inf)
    drawn = NOISE[noise](np.random.default_rng(2), (5_000, 60))
    ever = float((sides(drawn, ALPHA / 0.6) != 0).any(axis=1).mean())
    assert ever == pytest.approx(0.037, abs=0.008)


def test_outliers_do_not_hide_a_difference() -> None:
    drawn = bursts(np.random.default_rng(3), (1_000, BLOCKS)) + 1.2
    found = sides(drawn, ALPHA) == 1
    assert found.any(axis=1).mean() > 0.85
    assert student_sides(drawn)[:, -1].mean() < 0.8


def test_a_large_difference_takes_few_blocks() -> None:
    source = np.random.default_rng(4)
    twice = sides(source.normal(size=(2_000, BLOCKS)) + 2.0, ALPHA) == 1
    assert twice.any(axis=1).all()
    assert (twice.argmax(axis=1) + 1).mean() < 8.5
    assert (sides(source.normal(size=(200, 3)) + 100.0, ALPHA)[:, 2] == 1).mean() > 0.9


@given(values, st.floats(0.001, 0.5), st.floats(-1, 1))
def test_the_interval_holds_what_is_not_rejected(
    logs: list[float], alpha: float, centre: float
) -> None:
    low, high = interval(logs, alpha)
    assert low <= high
    assume(np.std(logs) > 1e-6)
    assume(min(abs(low - centre), abs(high - centre)) > 1e-9)
    side = sides([x - centre for x in logs], alpha)[-1]
    # Where the two parts do not overlap, the interval lies between them.
    parts = (interval_of_mean(logs, alpha), interval_of_ranks(logs, alpha))
    assume(max(part[0] for part in parts) <= min(part[1] for part in parts))
    assert side == (1 if centre < low else -1 if centre > high else 0)


def interval_of_mean(logs: list[float], alpha: float) -> tuple[float, float]:
    half = sequential._mean_critical(len(logs), alpha) * np.std(logs, ddof=1) / math.sqrt(len(logs))
    return float(np.mean(logs) - half), float(np.mean(logs) + half)


def interval_of_ranks(logs: list[float], alpha: float) -> tuple[float, float]:
    if len(logs) < 8:
        return -math.inf, math.inf
    return sequential._rank_limits(np.asarray(logs), alpha)


@given(values, st.floats(0.001, 0.5))
def test_the_p_value_is_the_alpha_at_which_the_interval_ends_at_no_difference(
    logs: list[float], alpha: float
) -> None:
    p = known(p_value(logs))
    assert 0 <= p <= 1
    assume(abs(p - alpha) > 1e-6 * alpha)
    assert (sides(logs, alpha)[-1] != 0) == (p < alpha)


@given(values, st.floats(0.01, 100))
def test_neither_unit_nor_sides_nor_order_matter(logs: list[float], scale: float) -> None:
    p = known(p_value(logs))
    assume(np.std(logs) > 1e-6)
    assert p_value([-scale * x for x in reversed(logs)]) == pytest.approx(p, rel=1e-5, abs=1e-12)


@given(values)
def test_a_ratio_is_within_its_interval(logs: list[float]) -> None:
    found = paired_ratio([1.0] * len(logs), np.exp(logs).tolist(), looks="any")
    low, high = interval(logs, 0.05)
    assert found.looks == "any"
    assert known(found.low) <= found.ratio <= known(found.high)
    assert math.log(known(found.low)) == pytest.approx(low, abs=1e-6)
    assert math.log(known(found.high)) == pytest.approx(high, abs=1e-6)


def test_outliers_do_not_take_the_ratio_out_of_its_interval() -> None:
    ratios = [1.2 + step / 1000 for step in range(-30, 31)] + [5000.0] * 3
    found = paired_ratio([1.0] * len(ratios), ratios, looks="any")
    assert 1.1 < known(found.low) < found.ratio == known(found.high) < 1.3


def test_two_blocks_say_nothing_and_equal_ones_all() -> None:
    assert p_value([0.1, 0.2]) is None
    assert interval([0.1, 0.2], ALPHA) == (-math.inf, math.inf)
    assert p_value([0.125] * 3) == 0.0
    assert interval([0.125] * 9, ALPHA) == pytest.approx((0.125, 0.125))
    assert p_value([0.0] * 9) == 1.0


@pytest.mark.parametrize("blocks", [8, 12, 19, 20, 40])
def test_one_other_value_among_equal_ones_is_no_difference(blocks: int) -> None:
    """A percentile, for example, may be the same number in all blocks but one."""
    for other in (0.2, -0.2):
        low, high = interval([0.0] * (blocks - 1) + [other], ALPHA)
        assert low <= 0 <= high


@pytest.mark.parametrize("noise", ["normal", "heavy tails", "outliers"])
def test_the_interval_of_the_mean_alone_holds_at_all_looks(noise: str) -> None:
    drawn = NOISE[noise](np.random.default_rng(31), (200, 25))
    ever = 0
    for of_blocks in drawn:
        limits = (mean_interval(of_blocks[:n], ALPHA) for n in range(1, 26))
        ever += any(low > 0 or high < 0 for low, high in limits)
    assert ever <= stats.binom.ppf(0.99, 200, ALPHA)


def test_the_interval_of_the_mean_alone_does_not_pass_over_what_is_rare() -> None:
    once = [0.0] * 19 + [0.2]
    assert mean_interval(once, ALPHA)[1] > 0.04 > 1e-9 > interval(once, ALPHA)[1]
    assert mean_interval(once[:2], ALPHA) == (-math.inf, math.inf)
    low, high = mean_interval([0.0] * 5, ALPHA, least_error=0.01)
    assert -low == high > 0.02
