"""Rates of errors: how often like is told apart, and unlike is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats import compare_rates

Side = list[tuple[int, int]]


def drawn(
    source: np.random.Generator, blocks: int, rate: float, tries: int, bursts: float | None
) -> Side:
    """Hits by block: binomial; with ``bursts``, the rate itself varies by so much (its CV)."""
    rates = np.full(blocks, rate)
    if bursts is not None:
        a = (1 - rate) / bursts**2 - rate
        rates = source.beta(a, a * (1 - rate) / rate, size=blocks)
    return [(int(hits), tries) for hits in source.binomial(tries, rates)]


@pytest.mark.parametrize("blocks", [3, 5, 10])
@pytest.mark.parametrize(
    ("rate", "tries", "bursts"),
    [
        (0.001, 100, None),
        (0.002, 10_000, None),
        (0.01, 1_000, None),
        (0.05, 300, None),
        (0.005, 100_000, 0.5),
        (0.003, 100_000, 1.0),
        (0.02, 100_000, 0.1),
    ],
)
def test_like_rates_are_rarely_told_apart_even_if_errors_come_in_bursts(
    blocks: int, rate: float, tries: int, bursts: float | None
) -> None:
    source = np.random.default_rng(20_260_105)
    repeats = 1_000
    told_apart = sum(
        compare_rates(
            drawn(source, blocks, rate, tries, bursts), drawn(source, blocks, rate, tries, bursts)
        ).differs
        for _ in range(repeats)
    )
    assert told_apart / repeats <= 0.05 + 2.6 * (0.05 * 0.95 / repeats) ** 0.5


@pytest.mark.parametrize(
    ("blocks", "other", "tries", "least"),
    [(3, 0.006, 20_000, 0.95), (5, 0.003, 20_000, 0.99), (3, 0.05, 1_000, 0.99)],
)
def test_unlike_rates_are_told_apart(blocks: int, other: float, tries: int, least: float) -> None:
    source = np.random.default_rng(7)
    repeats = 400
    told_apart = sum(
        compare_rates(
            drawn(source, blocks, 0.001, tries, None), drawn(source, blocks, other, tries, None)
        ).differs
        for _ in range(repeats)
    )
    assert told_apart / repeats >= least


def test_one_wild_block_is_enough() -> None:
    base = [(0, 100_000)] * 5
    assert compare_rates(base, [(0, 100_000)] * 4 + [(20_000, 100_000)]).differs


def test_what_does_not_matter_is_no_difference_however_sure() -> None:
    assert not compare_rates([(0, 10_000_000)] * 5, [(9_000, 10_000_000)] * 5).differs
    assert compare_rates([(0, 10_000_000)] * 5, [(11_000, 10_000_000)] * 5).differs


def test_a_few_requests_prove_nothing() -> None:
    assert not compare_rates([(0, 20)], [(1, 20)]).differs
    assert not compare_rates([(0, 0)] * 3, [(0, 0)] * 3).differs


sides = st.lists(
    st.integers(0, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=6,
)


@given(sides)
def test_a_treatment_does_not_differ_from_itself(side: Side) -> None:
    assert not compare_rates(side, side).differs


@given(sides, sides)
def test_it_does_not_matter_which_side_is_the_base(one: Side, other: Side) -> None:
    blocks = min(len(one), len(other))
    found = compare_rates(one[:blocks], other[:blocks])
    swapped = compare_rates(other[:blocks], one[:blocks])
    assert found.differs == swapped.differs
    assert (found.base, found.candidate) == (swapped.candidate, swapped.base)


@pytest.mark.parametrize(
    ("base", "candidate"), [([], []), ([(0, 1)], []), ([(2, 1)], [(0, 1)]), ([(-1, 1)], [(0, 1)])]
)
def test_counts_that_cannot_be_are_refused(base: Side, candidate: Side) -> None:
    with pytest.raises(ValueError, match=r"blocks of the base|between 0 and the tries"):
        compare_rates(base, candidate)
