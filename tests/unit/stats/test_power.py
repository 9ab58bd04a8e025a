from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats import blocks_wanted, minimum_detectable_ratio, paired_ratio

spreads = st.floats(min_value=1e-4, max_value=0.3)


def test_the_textbook_case() -> None:
    # A paired effect of one standard deviation, two-sided 5 %, power 0.8, wants 10 pairs.
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
