"""Test means with intervals, and their coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from millrace.stats.mean import OwnError, mean_estimate, mean_estimates, welch_p
from tests.support.known import known

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


def test_the_interval_is_students() -> None:
    values = [10.1, 9.7, 10.4, 10.0]
    found = mean_estimate(values)
    expected = reference.ttest_1samp(values, 0.0)
    low, high = expected.confidence_interval(0.95)
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.mean == pytest.approx(10.05)
    assert found.n == 4


def test_single_value_has_no_interval() -> None:
    found = mean_estimate([3.0])
    assert (found.mean, found.low, found.high, found.p_value) == (3.0, None, None, None)


def test_values_that_are_all_the_same_are_certain() -> None:
    assert mean_estimate([0.0, 0.0, 0.0]).p_value == 1.0
    assert mean_estimate([2.0, 2.0, 2.0]).p_value == 0.0


def test_luck_in_counting_is_not_taken_for_certainty() -> None:
    """Three blocks counted one sample each on one side and none on the other."""
    lucky = mean_estimate([1.0, 1.0, 1.0], least_error=math.sqrt(3) / 3)
    assert known(lucky.p_value) > 0.05
    assert known(lucky.low) < 0
    spread = mean_estimate([1.0, 5.0, 9.0])
    assert mean_estimate([1.0, 5.0, 9.0], least_error=0.1) == spread


@pytest.mark.parametrize("values", [[], [math.nan, 1.0], [math.inf, 1.0]])
def test_no_mean_without_values(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"at least one value|finite"):
        mean_estimate(values)


@given(VALUES, st.floats(0.01, 100))
def test_units_do_not_matter(values: list[float], unit: float) -> None:
    one, scaled = mean_estimate(values), mean_estimate([value * unit for value in values])
    assert scaled.mean == pytest.approx(one.mean * unit, abs=1e-6)
    assert scaled.low == pytest.approx(known(one.low) * unit, rel=1e-6, abs=1e-4)


@given(VALUES)
def test_rows_are_estimated_each_by_itself(values: list[float]) -> None:
    other = [value + 1 for value in values]
    assert mean_estimates([values, other])[1] == mean_estimate(other)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_interval_holds_as_often_as_claimed(count: int) -> None:
    source = np.random.default_rng(20_261_122)
    repeats = 4_000
    drawn = source.normal(5.0, 2.0, size=(repeats, count))
    held = sum(
        found.low <= 5.0 <= found.high
        for found in mean_estimates(drawn)
        if found.low is not None and found.high is not None
    )
    assert abs(held / repeats - 0.95) < 2.6 * math.sqrt(0.95 * 0.05 / repeats)


def test_an_error_from_elsewhere_is_added_to_the_values_own() -> None:
    values = [[1.0, 2.0, 3.0], [5.0, 5.0, 5.0], [1.0, 2.0, 3.0]]
    further = OwnError(np.asarray([1 / math.sqrt(3), 2.0, 0.0]), 2)
    same, alone, without = mean_estimates(values, further=[further])
    # Two errors of one size and 2 degrees of freedom each have 4 together.
    assert same.high == pytest.approx(2 + reference.t.ppf(0.975, 4) * math.sqrt(2 / 3))
    assert same.p_value == pytest.approx(2 * reference.t.sf(2 / math.sqrt(2 / 3), 4))
    assert alone.high == pytest.approx(5 + reference.t.ppf(0.975, 2) * 2)
    assert without == mean_estimates(values)[2]


def test_intervals_of_two_errors_hold_as_often_as_they_say() -> None:
    source = np.random.default_rng(20_261_141)
    rows, values, others = 20_000, 3, 4
    drawn = source.normal(size=(rows, values))
    elsewhere = source.normal(scale=2.0, size=(rows, others))
    error = OwnError(elsewhere.std(axis=1, ddof=1) / math.sqrt(others), others - 1)
    found = mean_estimates(drawn + elsewhere.mean(axis=1, keepdims=True), further=[error])
    held = sum(e.low <= 0 <= e.high for e in found if e.low is not None and e.high is not None)
    assert held / rows == pytest.approx(0.95, abs=0.01)


def test_an_example_by_hand() -> None:
    # t = (2 - 5) / sqrt(1/3 + 4/3) = -2.3238 with 2.9412 degrees of freedom.
    assert welch_p([1, 2, 3], [3, 5, 7]) == pytest.approx(0.1045, abs=2e-4)


def test_samples_without_spread() -> None:
    assert welch_p([2.0, 2.0], [2.0, 2.0]) == 1
    assert welch_p([2.0, 2.0], [3.0, 3.0, 3.0]) == 0


def test_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="two values"):
        welch_p([1.0], [1.0, 2.0])


def test_equal_means_are_rejected_as_often_as_claimed() -> None:
    source = np.random.default_rng(3)
    rejected = sum(
        welch_p(list(source.normal(size=4)), list(source.normal(0, 3, size=6))) < 0.05
        for _ in range(1000)
    )
    assert 25 < rejected < 75
