"""Test exact intervals and tests of counts against known values, and their coverage."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference
from scipy.stats import binom, binomtest

from millrace.stats.proportions import (
    against_at_most_half,
    count_differences,
    count_limits,
    fair_coin_e_value,
    proportion_limits,
    sign_test,
)
from millrace.stats.spread import sd_limits


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
    assert sign_test(heads, tosses) == pytest.approx(binomtest(heads, tosses).pvalue)
    assert sign_test(heads, tosses) == sign_test(tosses - heads, tosses)


def test_nothing_tossed_is_even() -> None:
    assert sign_test(0, 0) == 1.0
    with pytest.raises(ValueError, match="heads"):
        sign_test(2, 1)


def test_the_limits_of_a_deviation_hold_it() -> None:
    source = np.random.default_rng(5)
    held = 0
    for _ in range(500):
        sd = float(source.normal(size=12).std(ddof=1))
        low, high = sd_limits(sd, 12)
        held += low <= 1 <= high
    assert 460 < held < 490
    with pytest.raises(ValueError, match="two values"):
        sd_limits(1.0, 1)


EVIDENCE = {"even": fair_coin_e_value, "at most half": against_at_most_half}


def ever_reached(evidence: Callable[[int, int], float], probability: float) -> float:
    """Return the exact probability that the evidence reaches 20 in 200 tosses."""
    below, reached = {0: 1.0}, 0.0
    for tosses in range(1, 201):
        after: dict[int, float] = {}
        for heads, share in below.items():
            after[heads] = after.get(heads, 0.0) + share * (1 - probability)
            after[heads + 1] = after.get(heads + 1, 0.0) + share * probability
        stopped = {heads for heads in after if evidence(heads, tosses) >= 20}
        reached += sum(after[heads] for heads in stopped)
        below = {heads: share for heads, share in after.items() if heads not in stopped}
    return reached


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_against_what_is_true_is_rare_at_all_looks_together(name: str) -> None:
    assert 0.02 < ever_reached(EVIDENCE[name], 0.5) <= 0.05
    assert ever_reached(against_at_most_half, 0.3) < 0.001
    assert ever_reached(EVIDENCE[name], 0.8) > 0.99


@pytest.mark.parametrize("name", EVIDENCE)
@given(st.integers(0, 300), st.data())
def test_no_bet_on_the_next_toss_is_to_be_won(name: str, tosses: int, data: st.DataObject) -> None:
    heads = data.draw(st.integers(0, tosses))
    now, head, tail = (
        EVIDENCE[name](heads + more, tosses + n) for more, n in ((0, 0), (1, 1), (0, 1))
    )
    assert (head + tail) / 2 == pytest.approx(now)
    # The rarer heads are, the less evidence there is that they are frequent.
    assert name == "even" or 0.3 * head + 0.7 * tail <= now * (1 + 1e-9)


def test_evidence_is_symmetric_and_one_without_a_toss() -> None:
    assert fair_coin_e_value(0, 0) == pytest.approx(1) == against_at_most_half(0, 0)
    assert fair_coin_e_value(2, 9) == pytest.approx(fair_coin_e_value(7, 9))
    firsts = [next(n for n in range(k, 60) if fair_coin_e_value(n - k, n) >= 20) for k in range(3)]
    assert firsts == [7, 12, 16]
    assert fair_coin_e_value(5000, 5000) > 1e300
    with pytest.raises(ValueError, match="heads"):
        fair_coin_e_value(3, 2)


def test_limits_are_garwoods() -> None:
    low, high = count_limits([0, 1, 10])
    assert low == pytest.approx([0.0, 0.0253, 4.7954], abs=1e-4)
    assert high == pytest.approx([3.6889, 5.5716, 18.3904], abs=1e-4)
    # The ends are where the count is exactly as unlikely as permitted.
    assert reference.poisson.sf(9, low[2]) == pytest.approx(0.025)
    assert reference.poisson.cdf(10, high[2]) == pytest.approx(0.025)


def test_a_count_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
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
