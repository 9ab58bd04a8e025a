"""Test corrections for the number of tests: known values, and the error rates they control."""

import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from millrace.stats.mean import mean_estimates
from millrace.stats.multiple_tests import benjamini_yekutieli, holm, holm_marks, surviving_p
from millrace.stats.sequential import p_value

Adjustment = Callable[[Sequence[float]], tuple[float, ...]]
ADJUSTMENTS = [holm, benjamini_yekutieli]
P_VALUES = st.lists(st.floats(0, 1), max_size=20)


def test_holm_by_hand() -> None:
    # 0.01 x 4; 0.02 x 3; 0.03 x 2, at least as much as before; 0.5 x 1
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx((0.06, 0.5, 0.04, 0.06))


@pytest.mark.parametrize("adjust", ADJUSTMENTS)
def test_none_and_one_test(adjust: Adjustment) -> None:
    assert adjust([]) == ()
    assert adjust([0.04]) == (0.04,)


@pytest.mark.parametrize("adjust", ADJUSTMENTS)
@pytest.mark.parametrize("invalid", [-0.1, 1.1, math.nan])
def test_invalid_p_value_is_refused(adjust: Adjustment, invalid: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        adjust([0.5, invalid])


@given(P_VALUES)
def test_between_no_correction_and_bonferronis(p_values: list[float]) -> None:
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, p * len(p_values)) + 1e-12


@pytest.mark.parametrize("adjust", ADJUSTMENTS)
@given(p_values=st.lists(st.floats(0, 1), max_size=12), source=st.randoms())
def test_order_of_tests_does_not_matter(
    adjust: Adjustment, p_values: list[float], source: Random
) -> None:
    order = list(range(len(p_values)))
    source.shuffle(order)
    shuffled = adjust([p_values[number] for number in order])
    adjusted = adjust(p_values)
    assert shuffled == pytest.approx([adjusted[number] for number in order])


@pytest.mark.parametrize("questions", [2, 12, 40])
@pytest.mark.parametrize("together", [0.0, 0.8, -1.0])
def test_family_error_rate_is_as_low_as_claimed(questions: int, together: float) -> None:
    """Simulate parts of a time without differences.

    They are independent, positively correlated, or (-1) compensating."""
    source = np.random.default_rng(20_261_123)
    repeats, blocks = 1_000, 5
    wrong = 0
    for _ in range(repeats):
        drawn = source.normal(size=(questions, blocks))
        if together > 0:
            drawn += math.sqrt(together) * source.normal(size=blocks)
        elif together < 0:
            drawn -= drawn.mean(axis=0)
        p_values = [found.p_value or 0.0 for found in mean_estimates(drawn)]
        wrong += min(holm(p_values)) <= 0.05
    assert wrong / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)


def test_true_answers_do_not_make_wrong_ones_more_frequent() -> None:
    """Check that existing differences do not make false findings among the others more frequent."""
    source = np.random.default_rng(20_261_124)
    repeats, wrong, found_true = 1_000, 0, 0
    for _ in range(repeats):
        drawn = source.normal(size=(12, 6))
        drawn[:4] += 6.0
        adjusted = holm([found.p_value or 0.0 for found in mean_estimates(drawn)])
        wrong += any(p <= 0.05 for p in adjusted[4:])
        found_true += sum(p <= 0.05 for p in adjusted[:4])
    assert wrong / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)
    assert found_true / (4 * repeats) > 0.9


def test_marks_are_those_of_the_tests_that_were_made() -> None:
    marks = holm_marks([0.01, None, 0.2, 0.02], 0.05)
    assert [mark.adjusted_p for mark in marks] == [
        pytest.approx(0.03), None, pytest.approx(0.2), pytest.approx(0.04),
    ]  # fmt: skip
    assert [mark.significant for mark in marks] == [True, False, False, True]
    assert holm_marks([], 0.05) == ()


def test_benjamini_yekutieli_by_hand() -> None:
    # 1 + 1/2 + 1/3 = 11/6; 0.01 x 3, 0.02 x 3 / 2, each at most the next; 0.5 x 3 / 3
    assert benjamini_yekutieli([0.02, 0.5, 0.01]) == pytest.approx((0.055, 11 / 12, 0.055))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_it_agrees_with_scipy(p_values: list[float]) -> None:
    expected = stats.false_discovery_control(p_values, method="by")
    assert benjamini_yekutieli(p_values) == pytest.approx(expected, rel=1e-9)


@given(P_VALUES)
def test_no_p_value_is_made_smaller(p_values: list[float]) -> None:
    pairs = zip(p_values, benjamini_yekutieli(p_values), strict=True)
    assert all(p <= adjusted + 1e-12 for p, adjusted in pairs)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.data())
def test_a_p_value_survives_up_to_its_limit(p_values: list[float], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(p_values) - 1))
    limit = surviving_p(p_values, number, 0.05)
    below, above = limit * (1 - 1e-9), min(limit * (1 + 1e-6), 1.0)
    for p, survives in ((below, True), (above, False)):
        changed = [*p_values]
        changed[number] = p
        assert (benjamini_yekutieli(changed)[number] <= 0.05) == survives


def test_one_test_needs_no_more_than_its_own_level() -> None:
    assert surviving_p([0.5], 0, 0.05) == pytest.approx(0.05)


def test_of_candidates_with_one_base_few_discoveries_are_false() -> None:
    """Thirty candidates share a base, a third of them differ; each may stop at any look."""
    source = np.random.default_rng(5)
    shares, found = [], 0
    for _ in range(100):
        base = source.normal(size=12)
        logs = source.normal(size=(30, 12)) - base
        logs[:10] += 4.0
        p_values = [min(_p(each[:blocks]) for blocks in (5, 8, 12)) for each in logs]
        called = np.asarray(benjamini_yekutieli(p_values)) <= 0.05
        shares.append(called[10:].sum() / max(called.sum(), 1))
        found += called[:10].sum()
    assert np.mean(shares) <= 0.05
    assert found / 1000 > 0.8


def _p(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    p = p_value(logs)
    assert p is not None
    return p
