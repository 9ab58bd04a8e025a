"""Test the ratio of unpaired values: known values, invariances, and simulated error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from millrace.stats.unpaired_ratio import unpaired_ratio

SIMULATIONS = 4000
values = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=2, max_size=8)


def test_known_values() -> None:
    # Logarithms 0 ± 0.1 and 1 ± 0.1 (3 values each): error 0.1 √(2/3), 4 degrees of freedom.
    base = [math.exp(each) for each in (-0.1, 0.0, 0.1)]
    found = unpaired_ratio(base, [math.e * each for each in base])
    half_width = 2.776445 * 0.1 * math.sqrt(2 / 3)
    assert found.low is not None
    assert found.high is not None
    assert found.ratio == pytest.approx(math.e)
    assert found.low == pytest.approx(math.exp(1 - half_width), rel=1e-6)
    assert found.high == pytest.approx(math.exp(1 + half_width), rel=1e-6)
    assert found.excludes_1
    assert found.p_value == pytest.approx(2 * reference.t.sf(1 / (0.1 * math.sqrt(2 / 3)), 4))


@given(values, values)
def test_the_p_value_is_that_of_the_interval(base: list[float], candidate: list[float]) -> None:
    found = unpaired_ratio(base, candidate)
    assert found.p_value is not None
    if abs(found.p_value - 0.05) > 1e-6:
        assert found.excludes_1 == (found.p_value < 0.05)


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


@pytest.mark.parametrize(
    ("base", "candidate"), [([], [1.0]), ([0.0], [1.0]), ([1.0], [-1.0]), ([1.0], [math.inf])]
)
def test_what_has_no_ratio_is_refused(base: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match="value"):
        unpaired_ratio(base, candidate)


@given(values, values)
def test_the_other_way_round_it_is_the_inverse(base: list[float], candidate: list[float]) -> None:
    there, back = unpaired_ratio(base, candidate), unpaired_ratio(candidate, base)
    assert there.low is not None
    assert back.high is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert math.log(there.low) == pytest.approx(-math.log(back.high), abs=1e-9)


@pytest.mark.parametrize("starts", [3, 4])
@pytest.mark.parametrize("unequal", [1.0, 5.0])
def test_intervals_hold_as_often_as_they_say(starts: int, unequal: float) -> None:
    random = np.random.default_rng(starts)
    base = 40_000 * np.exp(0.001 * random.standard_normal((SIMULATIONS, starts)))
    candidate = 41_000 * np.exp(0.001 * unequal * random.standard_normal((SIMULATIONS, starts)))
    missed = 0
    for each, other in zip(base, candidate, strict=True):
        found = unpaired_ratio(list(each), list(other))
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 41_000 / 40_000 <= found.high
    assert 0.02 < missed / SIMULATIONS < 0.065  # of equal spreads they are somewhat too wide
