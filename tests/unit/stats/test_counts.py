"""Test intervals of counts, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from millrace.stats.counts import count_differences, count_limits


def test_limits_are_garwoods() -> None:
    low, high = count_limits([0, 1, 10])
    assert low == pytest.approx([0.0, 0.0253, 4.7954], abs=1e-4)
    assert high == pytest.approx([3.6889, 5.5716, 18.3904], abs=1e-4)
    # The ends are where the count is exactly as unlikely as permitted.
    assert reference.poisson.sf(9, low[2]) == pytest.approx(0.025)
    assert reference.poisson.cdf(10, high[2]) == pytest.approx(0.025)


def test_a_count_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="not below 0"):
        count_limits([-1])


def test_a_difference_is_in_units_of_its_sides() -> None:
    found = count_differences([100], [100], a_unit=0.1, b_unit=0.2)
    assert found.difference[0] == pytest.approx(10.0)
    assert found.low[0] < 10 < found.high[0]
    mirrored = count_differences([100], [100], a_unit=0.2, b_unit=0.1)
    assert (mirrored.low[0], mirrored.high[0]) == (
        pytest.approx(-found.high[0]),
        pytest.approx(-found.low[0]),
    )


def test_nothing_against_nothing_may_still_be_something() -> None:
    found = count_differences([0], [0], a_unit=1.0, b_unit=1.0)
    assert (found.low[0], found.high[0]) == (pytest.approx(-3.689, abs=1e-3),
                                             pytest.approx(3.689, abs=1e-3))  # fmt: skip


@pytest.mark.parametrize("a", [0.5, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("b", [0.5, 3.0, 40.0, 300.0])
@pytest.mark.parametrize("b_unit", [1.0, 1.7])
def test_intervals_of_differences_hold_as_often_as_they_say(
    a: float, b: float, b_unit: float
) -> None:
    source = np.random.default_rng(20_261_125)
    repeats = 4_000
    found = count_differences(
        source.poisson(a, repeats), source.poisson(b, repeats), a_unit=1.0, b_unit=b_unit
    )
    truth = b * b_unit - a
    held = np.mean((found.low <= truth) & (truth <= found.high))
    assert held >= 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / repeats)
