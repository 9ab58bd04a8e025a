import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.power import blocks_to_decide, blocks_wanted, minimum_detectable_ratio
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.stats.sequential import sides
from tests.support.known import known, limits

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


def test_inputs_without_an_answer_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two blocks"):
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
    assert once < known(often) < 2 * once


def test_before_the_first_look_nothing_is_seen() -> None:
    with pytest.raises(ValueError, match="at least 3 blocks"):
        minimum_detectable_ratio(0.01, 2, looks="any")


def estimate(ratio: float, log_sd: float, n_blocks: int, looks: Looks) -> RatioEstimate:
    """Return the estimate of blocks with exactly that mean and spread, half of them above it."""
    signs = [(-1) ** block for block in range(n_blocks)]
    mean = sum(signs) / n_blocks
    sd = math.sqrt(sum((sign - mean) ** 2 for sign in signs) / (n_blocks - 1))
    ratios = [ratio * math.exp(log_sd * (sign - mean) / sd) for sign in signs]
    return paired_ratio([1.0] * n_blocks, ratios, looks=looks)


differences = st.floats(-0.25, 0.25)  # log ratios


def fewer(one: int | None, other: int | None) -> bool:
    """Return whether one number of blocks is at most another; None is more than any."""
    return other is None or (one is not None and one <= other)


@pytest.mark.parametrize("looks", LOOKS)
@given(centre=differences, log_sd=spreads, margin=st.floats(0.005, 0.3))
def test_the_less_there_is_between_estimate_and_margin_the_more_blocks_are_wanted(
    looks: Looks, centre: float, log_sd: float, margin: float
) -> None:
    more = blocks_to_decide(estimate(math.exp(centre), log_sd, 5, looks), margin)
    assert more is None or more >= 1
    assert fewer(more, blocks_to_decide(estimate(math.exp(centre), 2 * log_sd, 5, looks), margin))
    mirrored = blocks_to_decide(estimate(math.exp(-centre), log_sd, 5, looks), margin)
    assert more == mirrored or (more is not None and more > 1000)


@pytest.mark.parametrize("looks", LOOKS)
@given(centre=differences, further=st.floats(0, 0.2), log_sd=spreads)
def test_a_larger_difference_is_settled_by_no_more_blocks(
    looks: Looks, centre: float, further: float, log_sd: float
) -> None:
    margin = 0.005
    centre = math.copysign(max(abs(centre), 0.01), centre)
    larger = math.exp(centre + math.copysign(further, centre))
    more = blocks_to_decide(estimate(math.exp(centre), log_sd, 5, looks), margin)
    assert fewer(blocks_to_decide(estimate(larger, log_sd, 5, looks), margin), more)


@given(centre=differences, log_sd=spreads, alpha=st.floats(1e-4, 0.05))
def test_a_difference_among_many_needs_more_blocks(
    centre: float, log_sd: float, alpha: float
) -> None:
    found = estimate(math.exp(centre), log_sd, 5, "any")
    alone = blocks_to_decide(found, 0.02)
    among = blocks_to_decide(found, 0.02, alpha=alpha)
    assert fewer(alone, among)
    if abs(centre) < math.log(1.02):  # equivalence has no part in the correction
        assert alone == among


@given(centre=differences, log_sd=spreads, n_now=st.integers(3, 6), looks=st.sampled_from(LOOKS))
def test_the_interval_of_so_many_blocks_decides_and_that_of_one_fewer_does_not(
    centre: float, log_sd: float, n_now: int, looks: Looks
) -> None:
    ratio, margin = math.exp(centre), 0.02
    more = blocks_to_decide(estimate(ratio, log_sd, n_now, looks), margin)
    # From 8 blocks on, ranks narrow the interval of real values further.
    if more is None or n_now + more >= 8:
        return

    def is_decided(n_blocks: int) -> bool:
        found = estimate(ratio, log_sd, n_blocks, "any")
        low, high = limits(found)
        if abs(centre) > math.log1p(margin):
            return found.excludes_1
        return 1 / (1 + margin) < low and high < 1 + margin

    assert is_decided(n_now + more)
    assert more == 1 or not is_decided(n_now + more - 1)


def test_what_hides_behind_the_margin_is_not_decided() -> None:
    assert blocks_to_decide(estimate(1.0199999, 0.01, 10, "any"), 0.02) is None
    assert blocks_to_decide(paired_ratio([1.0], [1.1], looks="any"), 0.02) is None
    with pytest.raises(ValueError, match="margin"):
        blocks_to_decide(estimate(1.1, 0.01, 3, "any"), 0.0)
