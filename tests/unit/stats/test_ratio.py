"""Test the paired ratio: invariances, and simulated error rates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from millrace.stats.ratio import Looks, paired_ratio, unpaired_ratio
from tests.support.known import known, limits

positive = st.floats(min_value=1e-3, max_value=1e9)
pairs = st.lists(st.tuples(positive, positive), min_size=2, max_size=20)
factors = st.floats(min_value=1e-6, max_value=1e6)

SIMULATIONS = 4000


def split(values: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [a for a, _ in values], [b for _, b in values]


def test_known_values() -> None:
    # log-ratios 0.1, 0.2, 0.3: mean 0.2, sd 0.1; the 97.5 % point of t with 2 degrees is 4.30265.
    estimate = paired_ratio([1.0, 1.0, 1.0], [math.exp(0.1), math.exp(0.2), math.exp(0.3)])
    half_width = 4.302653 * 0.1 / math.sqrt(3)
    assert estimate.ratio == pytest.approx(math.exp(0.2))
    assert estimate.low == pytest.approx(math.exp(0.2 - half_width), rel=1e-6)
    assert estimate.high == pytest.approx(math.exp(0.2 + half_width), rel=1e-6)
    assert estimate.log_sd == pytest.approx(0.1)
    # Two-sided, t = 0.2 / (0.1 / √3) with 2 degrees of freedom, whose tail is closed.
    t = 2 * math.sqrt(3)
    assert estimate.p_value == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert estimate.n_pairs == 3


def test_one_pair_has_no_interval() -> None:
    estimate = paired_ratio([2.0], [3.0])
    assert estimate.ratio == pytest.approx(1.5)
    assert estimate.low is None
    assert estimate.high is None


@pytest.mark.parametrize(
    ("base", "candidate"),
    [
        ([], []),
        ([], [1.0]),
        ([1.0], [1.0, 2.0]),
        ([0.0], [1.0]),
        ([1.0], [-1.0]),
        ([1.0], [math.inf]),
    ],
)
def test_values_without_a_ratio_are_refused(base: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match=r"value|pair"):
        paired_ratio(base, candidate)
    if len(base) <= 1 == len(candidate):
        with pytest.raises(ValueError, match="value"):
            unpaired_ratio(base, candidate)


@given(pairs, factors)
def test_the_unit_does_not_matter(values: list[tuple[float, float]], factor: float) -> None:
    base, candidate = split(values)
    before = paired_ratio(base, candidate)
    after = paired_ratio([v * factor for v in base], [v * factor for v in candidate])
    assert after.ratio == pytest.approx(before.ratio, rel=1e-9)
    assert limits(after) == pytest.approx(limits(before), rel=1e-6)


@given(pairs)
def test_swapping_the_sides_gives_the_reciprocal(values: list[tuple[float, float]]) -> None:
    base, candidate = split(values)
    one, other = paired_ratio(base, candidate), paired_ratio(candidate, base)
    assert other.ratio == pytest.approx(1 / one.ratio, rel=1e-9)
    low, high = limits(one)
    assert limits(other) == pytest.approx((1 / high, 1 / low), rel=1e-6)


@given(pairs)
def test_swapping_the_sides_leaves_the_p_value(values: list[tuple[float, float]]) -> None:
    base, candidate = split(values)
    one, other = paired_ratio(base, candidate), paired_ratio(candidate, base)
    assert 0 <= known(one.p_value) <= 1
    assert other.p_value == pytest.approx(known(one.p_value), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("ratio", "p_value"), [(1.0, 1.0), (2.0, 0.0)])
def test_blocks_without_a_spread_are_certain(ratio: float, p_value: float) -> None:
    assert paired_ratio([1.0] * 4, [ratio] * 4).p_value == p_value


@given(pairs, st.data())
def test_drift_that_a_block_shares_cancels(
    values: list[tuple[float, float]], data: st.DataObject
) -> None:
    base, candidate = split(values)
    # Powers of two are exact in floating point, so the logarithms' difference is too, up to the
    # last digits of the logarithms themselves.
    drift = [2.0 ** data.draw(st.integers(-20, 20)) for _ in base]
    before = paired_ratio(base, candidate)
    after = paired_ratio(
        [v * d for v, d in zip(base, drift, strict=True)],
        [v * d for v, d in zip(candidate, drift, strict=True)],
    )
    assert after.ratio == pytest.approx(before.ratio, rel=1e-12)
    assert limits(after) == pytest.approx(limits(before), rel=1e-9)


@given(pairs)
def test_the_estimate_lies_in_its_interval(values: list[tuple[float, float]]) -> None:
    estimate = paired_ratio(*split(values))
    low, high = limits(estimate)
    assert low <= estimate.ratio * (1 + 1e-12)
    assert estimate.ratio <= high * (1 + 1e-12)


@pytest.mark.parametrize("n_blocks", [3, 5, 10])
@pytest.mark.parametrize("truth", [1.0, 0.9])
def test_coverage_is_what_is_stated(n_blocks: int, truth: float) -> None:
    """Under strong drift, the interval holds the truth in 93 to 97 % of the runs.

    The drift is common to a block; each trial has noise of 2 %.

    For truth 1 it excludes 1 in no more than 5 % (and chance)."""
    source = np.random.default_rng(20160 + n_blocks)
    covered = 0
    for _ in range(SIMULATIONS):
        drift = np.exp(source.normal(0, 0.2, n_blocks))
        base = 100 * drift * np.exp(source.normal(0, 0.02, n_blocks))
        candidate = 100 * truth * drift * np.exp(source.normal(0, 0.02, n_blocks))
        low, high = limits(paired_ratio(base.tolist(), candidate.tolist()))
        covered += low <= truth <= high
    rate = covered / SIMULATIONS
    assert 0.93 <= rate <= 0.97
    if truth == 1.0:
        chance = 2.33 * math.sqrt(0.05 * 0.95 / SIMULATIONS)
        assert 1 - rate <= 0.05 + chance


def test_ignoring_the_blocks_would_not_see_what_pairing_sees() -> None:
    """Show that the test above can fail: with partners from other blocks, drift is noise."""
    source = np.random.default_rng(5)
    drift = np.exp(source.normal(0, 0.2, 10))
    base, candidate = (100 * drift).tolist(), (95 * drift).tolist()
    paired = limits(paired_ratio(base, candidate))
    shuffled = limits(paired_ratio(base, candidate[1:] + candidate[:1]))
    assert paired[1] < 1
    assert shuffled[0] < 1 < shuffled[1]


@pytest.mark.parametrize("looks", ["once", "any"])
@pytest.mark.parametrize("sd", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("blocks", [3, 5, 20])
def test_the_interval_of_rounded_values_holds_the_ratio(
    looks: Looks, sd: float, blocks: int
) -> None:
    """Values between 8 and 60 are rounded to whole numbers; ``sd`` is that of noise."""
    source = np.random.default_rng(7)
    held, runs = 0, 300
    for _ in range(runs):
        levels = source.uniform(8, 60, 2)
        base, candidate = np.maximum(
            np.round(levels[:, np.newaxis] + source.normal(0, sd, (2, blocks))), 1
        ).tolist()
        found = paired_ratio(base, candidate, looks=looks, unit_of_last_digit=1.0)
        low, high = limits(found)
        assert low < found.ratio < high
        held += low <= levels[1] / levels[0] <= high
    assert held / runs >= 0.93


def test_without_the_rounding_error_intervals_of_rounded_values_miss_it() -> None:
    """Show that the test above can fail."""
    found = paired_ratio([12.0] * 5, [11.0] * 5)
    assert found.low == found.high
    assert not known(found.low) <= 11.4 / 11.6 <= known(found.low)


def test_rounding_that_is_small_beside_the_spread_changes_nothing() -> None:
    base, candidate = [1203.4, 1190.1, 1212.8], [1100.2, 1111.9, 1090.4]
    exact = paired_ratio(base, candidate)
    rounded = paired_ratio(base, candidate, unit_of_last_digit=0.1)
    assert (rounded.low, rounded.high, rounded.p_value) == (exact.low, exact.high, exact.p_value)
    assert not rounded.is_as_wide_as_rounding


def test_an_interval_that_rounding_extends_over_1_has_no_small_p_value() -> None:
    found = paired_ratio([12.0] * 5, [11.0] * 5, unit_of_last_digit=1.0)
    assert not found.excludes_1
    assert found.p_value == 1.0


VALUES = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=2, max_size=8)


def test_known_values_of_unpaired_ratio() -> None:
    # Logarithms 0 ± 0.1 and 1 ± 0.1 (3 values each): error 0.1 √(2/3), 4 degrees of freedom.
    base = [math.exp(each) for each in (-0.1, 0.0, 0.1)]
    found = unpaired_ratio(base, [math.e * each for each in base])
    half_width = 2.776445 * 0.1 * math.sqrt(2 / 3)
    low, high = limits(found)
    assert found.ratio == pytest.approx(math.e)
    assert low == pytest.approx(math.exp(1 - half_width), rel=1e-6)
    assert high == pytest.approx(math.exp(1 + half_width), rel=1e-6)
    assert found.excludes_1
    assert found.p_value == pytest.approx(2 * reference.t.sf(1 / (0.1 * math.sqrt(2 / 3)), 4))


@given(VALUES, VALUES)
def test_the_p_value_is_that_of_the_interval(base: list[float], candidate: list[float]) -> None:
    found = unpaired_ratio(base, candidate)
    if abs(known(found.p_value) - 0.05) > 1e-6:
        assert found.excludes_1 == (known(found.p_value) < 0.05)


def test_a_single_value_has_no_interval() -> None:
    found = unpaired_ratio([100.0], [110.0, 111.0])
    assert (found.low, found.high, found.excludes_1) == (None, None, False)
    assert found.p_value is None


def test_values_without_any_spread_have_an_interval_without_width() -> None:
    same = unpaired_ratio([5.0, 5.0], [5.0, 5.0, 5.0])
    assert (same.excludes_1, same.p_value) == (False, 1.0)
    found = unpaired_ratio([5.0, 5.0], [6.0, 6.0])
    assert (found.low, found.high, found.excludes_1) == (found.ratio, found.ratio, True)
    assert found.p_value == 0.0


@given(VALUES, VALUES)
def test_the_other_way_round_it_is_the_inverse(base: list[float], candidate: list[float]) -> None:
    there, back = unpaired_ratio(base, candidate), unpaired_ratio(candidate, base)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert math.log(known(there.low)) == pytest.approx(-math.log(known(back.high)), abs=1e-9)


@pytest.mark.parametrize("starts", [3, 4])
@pytest.mark.parametrize("unequal", [1.0, 5.0])
def test_intervals_hold_as_often_as_they_say(starts: int, unequal: float) -> None:
    random = np.random.default_rng(starts)
    base = 40_000 * np.exp(0.001 * random.standard_normal((SIMULATIONS, starts)))
    candidate = 41_000 * np.exp(0.001 * unequal * random.standard_normal((SIMULATIONS, starts)))
    missed = 0
    for each, other in zip(base, candidate, strict=True):
        found = unpaired_ratio(list(each), list(other))
        low, high = limits(found)
        missed += not low <= 41_000 / 40_000 <= high
    assert 0.02 < missed / SIMULATIONS < 0.065  # of equal spreads they are somewhat too wide
