from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.power import blocks_to_decide, blocks_wanted, minimum_detectable_ratio
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.stats.sequential import sides

spreads = st.floats(min_value=1e-4, max_value=0.3)
LOOKS: tuple[Looks, ...] = ("once", "any")


def test_the_textbook_case() -> None:
    # A paired effect of one standard deviation, two-sided 5 %, power 0.8, needs 10 pairs.
    assert blocks_wanted(0.02, math.exp(0.02) - 1) == 10


@pytest.mark.parametrize("n_blocks", [3, 5, 12])
def test_the_promised_power_is_reached(n_blocks: int) -> None:
    source = np.random.default_rng(3)
    log_sd = 0.03
    ratio = minimum_detectable_ratio(log_sd, n_blocks)
    seen, runs = 0, 3000
    for _ in range(runs):
        values = ratio * np.exp(source.normal(0, log_sd, n_blocks))
        low = paired_ratio([1.0] * n_blocks, values.tolist()).low
        seen += low is not None and low > 1
    assert seen / runs == pytest.approx(0.8, abs=0.03)


@given(spreads, st.floats(min_value=0.005, max_value=0.3))
def test_the_blocks_wanted_are_enough_and_one_fewer_is_not(log_sd: float, margin: float) -> None:
    wanted = blocks_wanted(log_sd, margin)
    if wanted is None:
        assert minimum_detectable_ratio(log_sd, 10_000) > 1 + margin
        return
    assert minimum_detectable_ratio(log_sd, wanted) <= 1 + margin
    assert wanted == 3 or minimum_detectable_ratio(log_sd, wanted - 1) > 1 + margin


@given(spreads, st.integers(2, 60))
def test_more_blocks_see_smaller_differences(log_sd: float, n_blocks: int) -> None:
    more, fewer = (minimum_detectable_ratio(log_sd, n) for n in (n_blocks + 1, n_blocks))
    assert 1 < more < fewer


def test_no_spread_wants_the_fewest_blocks() -> None:
    assert blocks_wanted(0.0, 0.02) == 3


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(ValueError, match="one block"):
        minimum_detectable_ratio(0.01, 1)
    with pytest.raises(ValueError, match="margin"):
        blocks_wanted(0.01, 0.0)


@pytest.mark.parametrize("n_blocks", [3, 5, 12, 40])
def test_the_promised_power_is_reached_when_every_block_is_looked_at(n_blocks: int) -> None:
    source = np.random.default_rng(4)
    log_sd = 0.03
    ratio = minimum_detectable_ratio(log_sd, n_blocks, looks="any")
    drawn = math.log(ratio) + source.normal(0, log_sd, size=(2000, n_blocks))
    found = sides(drawn, 0.05) == 1
    assert found[:, -1].mean() == pytest.approx(0.8, abs=0.04)
    assert 0.76 < found.any(axis=1).mean() < 0.95


def test_looking_often_costs_some_blocks() -> None:
    once, often = (blocks_wanted(0.03, 0.05, looks=looks) for looks in LOOKS)
    assert once is not None
    assert often is not None
    assert once < often < 2 * once


def test_before_the_first_look_nothing_is_seen() -> None:
    with pytest.raises(ValueError, match="at least 3 blocks"):
        minimum_detectable_ratio(0.01, 2, looks="any")


def estimate(ratio: float, log_sd: float | None, n_blocks: int, looks: Looks) -> RatioEstimate:
    return RatioEstimate(ratio, None, None, n_blocks, 0.95, log_sd, looks)


@pytest.mark.parametrize("looks", LOOKS)
@given(ratio=st.floats(0.8, 1.25), log_sd=spreads, margin=st.floats(0.005, 0.3))
def test_the_less_there_is_between_estimate_and_margin_the_more_blocks_are_wanted(
    looks: Looks, ratio: float, log_sd: float, margin: float
) -> None:
    more = blocks_to_decide(estimate(ratio, log_sd, 5, looks), margin)
    noisier = blocks_to_decide(estimate(ratio, 2 * log_sd, 5, looks), margin)
    assert more is None or more >= 1
    assert noisier is None or (more is not None and noisier >= more)
    mirrored = blocks_to_decide(estimate(1 / ratio, log_sd, 5, looks), margin)
    assert more == mirrored or (more is not None and more > 1000)


def test_so_many_more_blocks_decide() -> None:
    log_sd, margin = 0.03, 0.02
    more = blocks_to_decide(estimate(1.05, log_sd, 6, "once"), margin)
    assert more is not None
    # Values with exactly that mean and spread: half of them above, half below.
    blocks = 6 + more + more % 2
    away = log_sd * math.sqrt((blocks - 1) / blocks)
    ratios = [1.05 * math.exp(sign * away) for sign in (-1, 1)] * (blocks // 2)
    low = paired_ratio([1.0] * blocks, ratios).low
    few = paired_ratio([1.0] * (blocks - 4), ratios[4:]).low
    assert low is not None
    assert few is not None
    assert few < 1 < low


def test_what_hides_behind_the_margin_is_not_decided() -> None:
    assert blocks_to_decide(estimate(1.0199999, 0.01, 10, "any"), 0.02) is None
    assert blocks_to_decide(estimate(1.1, None, 1, "any"), 0.02) is None
    with pytest.raises(ValueError, match="margin"):
        blocks_to_decide(estimate(1.1, 0.01, 3, "any"), 0.0)
