"""Test the share of false differences among many comparisons."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from millrace.stats.multiple_tests import benjamini_yekutieli, surviving_p
from millrace.stats.sequential import p_value

P_VALUES = st.lists(st.floats(0, 1), max_size=20)


def test_an_example_by_hand() -> None:
    # 1 + 1/2 + 1/3 = 11/6; 0.01 x 3, 0.02 x 3 / 2, each at most the next; 0.5 x 3 / 3
    assert benjamini_yekutieli([0.02, 0.5, 0.01]) == pytest.approx((0.055, 11 / 12, 0.055))


def test_none_and_one_comparison() -> None:
    assert benjamini_yekutieli([]) == ()
    assert benjamini_yekutieli([0.04]) == (0.04,)


@pytest.mark.parametrize("p_value", [-0.1, 1.1, math.nan])
def test_what_is_no_p_value_is_refused(p_value: float) -> None:
    with pytest.raises(ValueError, match=r"0 (to|and) 1"):
        benjamini_yekutieli([0.5, p_value])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_it_agrees_with_scipy(p_values: list[float]) -> None:
    expected = stats.false_discovery_control(p_values, method="by")
    assert benjamini_yekutieli(p_values) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms())
def test_the_order_of_comparisons_does_not_matter(p_values: list[float], source: Random) -> None:
    order = list(range(len(p_values)))
    source.shuffle(order)
    shuffled = benjamini_yekutieli([p_values[number] for number in order])
    adjusted = benjamini_yekutieli(p_values)
    assert shuffled == pytest.approx([adjusted[number] for number in order])


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
