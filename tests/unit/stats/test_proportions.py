"""Exact intervals and tests of counts against values that are known, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from millrace.stats import as_many_or_more, even_odds, proportion_limits, sd_limits


def test_the_limits_are_those_of_clopper_and_pearson() -> None:
    assert proportion_limits(1, 60) == pytest.approx((0.00042, 0.0894), abs=1e-4)
    assert proportion_limits(0, 20) == pytest.approx((0.0, 0.1684), abs=1e-4)
    assert proportion_limits(20, 20) == pytest.approx((0.8316, 1.0), abs=1e-4)


@given(st.integers(1, 200), st.data())
def test_the_limits_are_scipys(trials: int, data: st.DataObject) -> None:
    events = data.draw(st.integers(0, trials))
    known = binomtest(events, trials).proportion_ci()
    assert proportion_limits(events, trials) == pytest.approx((known.low, known.high), abs=1e-9)


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.3])
def test_the_limits_hold_the_rate_as_often_as_they_claim(rate: float) -> None:
    trials = 60
    missed = sum(
        float(binom.pmf(events, trials, rate))
        for events in range(trials + 1)
        if not proportion_limits(events, trials)[0] <= rate <= proportion_limits(events, trials)[1]
    )
    assert missed <= 0.05


@pytest.mark.parametrize(("events", "trials"), [(1, 0), (0, 0), (3, 2), (-1, 4)])
def test_what_cannot_be_is_refused(events: int, trials: int) -> None:
    with pytest.raises(ValueError, match="events"):
        proportion_limits(events, trials)


@given(st.integers(1, 200), st.data())
def test_even_odds_are_the_exact_sign_test(tosses: int, data: st.DataObject) -> None:
    heads = data.draw(st.integers(0, tosses))
    assert even_odds(heads, tosses) == pytest.approx(binomtest(heads, tosses).pvalue)
    assert even_odds(heads, tosses) == even_odds(tosses - heads, tosses)


def test_nothing_tossed_is_even() -> None:
    assert even_odds(0, 0) == 1.0
    with pytest.raises(ValueError, match="heads"):
        even_odds(2, 1)


def test_the_limits_of_a_deviation_hold_it() -> None:
    source = np.random.default_rng(5)
    held = 0
    for _ in range(500):
        sd = float(source.normal(size=12).std(ddof=1))
        low, high = sd_limits(sd, 12)
        held += low <= 1 <= high
    assert 460 < held < 490
    with pytest.raises(ValueError, match="one value"):
        sd_limits(1.0, 1)


@given(st.integers(0, 60), st.sampled_from([0.01, 0.05, 0.5]), st.data())
def test_as_many_or_more_is_the_one_sided_binomial_test(
    trials: int, rate: float, data: st.DataObject
) -> None:
    events = data.draw(st.integers(0, trials))
    known = sum(float(binom.pmf(each, trials, rate)) for each in range(events, trials + 1))
    assert as_many_or_more(events, trials, rate) == pytest.approx(known, abs=1e-12)
    with pytest.raises(ValueError, match="events"):
        as_many_or_more(trials + 1, trials, rate)
