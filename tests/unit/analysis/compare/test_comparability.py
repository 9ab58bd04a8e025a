"""Test the conditions that refuse or give up a comparison, and how often they do so wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.refusals import (
    LIKE_WORK,
    MARGIN,
    UNLIKE_WORK,
    Watched,
    of_seconds,
    trial,
    unsteady_in,
    watch_trials,
    watch_work,
)
from millrace.analysis.compare.comparability import (
    Comparability,
    TreatmentTrials,
    assess_comparability,
)
from millrace.analysis.compare.equal_work import ComparabilityRules, TrialWork
from millrace.analysis.steady.policy import lasts, unsteady_sides
from millrace.stats.trend import Trend

NAMES = ("mysql-5.6.24", "mysql-8.0.12")
MOST = 16  # blocks
RUNS = 80
GIVEN_UP = 0.05
STEADY, FALLS = Trend("steady"), Trend("drift", -0.07)


def given_up(found: Watched) -> int:
    return int(np.isfinite(found.after).sum())


def most(share: float) -> int:
    """Return the limit on given-up comparisons, exceeded by chance once in 200 times."""
    return int(stats.binom.ppf(0.995, RUNS, share))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.5])
def test_as_many_unsteady_trials_on_both_sides_are_rarely_given_up(share: float) -> None:
    found = watch_trials(RUNS, unsteady_in(share, share), most=MOST)
    assert given_up(found) <= most(GIVEN_UP)


@pytest.mark.parametrize("name", LIKE_WORK)
def test_work_that_is_alike_is_rarely_given_up(name: str) -> None:
    assert given_up(watch_work(RUNS, *LIKE_WORK[name], most=MOST)) <= most(GIVEN_UP)


def test_noise_of_the_seconds_gives_nothing_up() -> None:
    found = watch_trials(RUNS, of_seconds(RUNS, sd=0.1, rho=0.5), most=MOST)
    assert given_up(found) <= most(GIVEN_UP)


def test_refusals_of_one_look_would_give_up_far_too_much() -> None:
    """Use the same looks, but test at each one only the trials so far, as a single look may."""
    source = np.random.default_rng(5)
    wrong = 0
    for _ in range(RUNS):
        base, candidate = (
            [trial(block, course) for block, course in enumerate(unsteady_in(0.4, 0.4)(source, 0))]
            for _ in range(2)
        )
        looks = (unsteady_sides(base[:n], candidate[:n], names=NAMES) for n in range(5, MOST + 1))
        wrong += any(looks)
    assert wrong > RUNS / 2
    bursts = watch_work(RUNS, *LIKE_WORK["errors in 5 %, in bursts (CV 1)"], most=8, looks="once")
    assert given_up(bursts) > RUNS / 2


@pytest.mark.parametrize(
    ("shares", "blocks", "least"),
    [((1.0, 0.0), 7, 1.0), ((1.0, 1.0), 7, 1.0), ((0.6, 0.0), 16, 0.8), ((0.6, 0.1), 16, 0.35)],
)
def test_what_stays_unsteady_is_given_up(
    shares: tuple[float, float], blocks: int, least: float
) -> None:
    found = watch_trials(RUNS, unsteady_in(*shares), most=blocks)
    assert given_up(found) >= least * RUNS


@pytest.mark.parametrize("name", UNLIKE_WORK)
def test_work_that_differs_is_given_up(name: str) -> None:
    assert given_up(watch_work(RUNS, *UNLIKE_WORK[name], most=MOST)) >= 0.9 * RUNS


def test_what_is_refused_now_may_yet_be_compared() -> None:
    """Three unsteady trials of five prevent a verdict, but are no reason to give up."""
    base = [trial(block, FALLS if block < 3 else STEADY) for block in range(5)]
    candidate = [trial(block, STEADY) for block in range(5)]
    found = said(TreatmentTrials(NAMES[0], (), base), TreatmentTrials(NAMES[1], (), candidate))
    assert found.unsteady.startswith("not steady: 3 of 5 trials of mysql-5.6.24")
    assert found.permanently is None
    assert found.reason == found.unsteady


def test_blocks_that_both_have_count() -> None:
    falling = [trial(block, FALLS) for block in range(9)]
    steady = [trial(block, STEADY) for block in range(9)]
    assert lasts(falling, steady)
    assert not lasts(falling[:6], steady[:6])
    assert (
        said(TreatmentTrials("a", (), falling), TreatmentTrials("b", (), steady[:6])).permanently
        is None
    )
    assert said(TreatmentTrials("a", (), falling), TreatmentTrials("b", (), [])) == Comparability(
        "", "", None
    )


def test_work_is_given_up_after_five_blocks() -> None:
    for blocks, permanently in ((4, None), (5, "unequal")):
        base = [TrialWork(block, 100_000) for block in range(blocks)]
        other = [TrialWork(block, 90_000, 10_000) for block in range(blocks)]
        found = said(TreatmentTrials("a", base, ()), TreatmentTrials("b", other, ()))
        assert found.unequal
        assert found.permanently == permanently


def said(base: TreatmentTrials, candidate: TreatmentTrials) -> Comparability:
    return assess_comparability(base, candidate, ComparabilityRules(MARGIN, 0, True, "any"))
