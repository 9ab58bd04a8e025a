"""Test the error rate of many simultaneous questions."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.mean import mean_estimates
from millrace.stats.multiple_tests import holm, holm_marks

P_VALUES = st.lists(st.floats(0, 1), max_size=20)


def test_an_example_by_hand() -> None:
    # 0.01 x 4; 0.02 x 3; 0.03 x 2, at least as much as before; 0.5 x 1
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx((0.06, 0.5, 0.04, 0.06))


def test_none_and_one_question() -> None:
    assert holm([]) == ()
    assert holm([0.04]) == (0.04,)


@pytest.mark.parametrize("p_value", [-0.1, 1.1, math.nan])
def test_what_is_no_p_value_is_refused(p_value: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([0.5, p_value])


@given(P_VALUES)
def test_between_no_correction_and_bonferronis(p_values: list[float]) -> None:
    for p_value, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p_value <= adjusted <= min(1.0, p_value * len(p_values)) + 1e-12


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms())
def test_the_order_of_questions_does_not_matter(p_values: list[float], source: Random) -> None:
    order = list(range(len(p_values)))
    source.shuffle(order)
    shuffled = holm([p_values[number] for number in order])
    assert shuffled == tuple(holm(p_values)[number] for number in order)


@pytest.mark.parametrize("questions", [2, 12, 40])
@pytest.mark.parametrize("together", [0.0, 0.8, -1.0])
def test_any_wrong_answer_is_as_rare_as_it_says(questions: int, together: float) -> None:
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
        wrong += any(p_value <= 0.05 for p_value in adjusted[4:])
        found_true += sum(p_value <= 0.05 for p_value in adjusted[:4])
    assert wrong / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)
    assert found_true / (4 * repeats) > 0.9


def test_marks_are_those_of_the_questions_that_were_asked() -> None:
    marks = holm_marks([0.01, None, 0.2, 0.02], 0.05)
    assert [mark.adjusted_p for mark in marks] == [
        pytest.approx(0.03), None, pytest.approx(0.2), pytest.approx(0.04),
    ]  # fmt: skip
    assert [mark.significant for mark in marks] == [True, False, False, True]
    assert holm_marks([], 0.05) == ()
