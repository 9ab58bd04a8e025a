"""Test rates of errors: shown to be equal, shown to differ, and how often wrongly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.rates import compare_rates
from millrace.stats.ratio import Looks

Side = list[tuple[int, int]]

TOLERANCE = 0.01


def shown(base: Side, candidate: Side, tolerance: float = TOLERANCE, looks: Looks = "once") -> str:
    return compare_rates(base, candidate, tolerance=tolerance, looks=looks).shown


def drawn(
    source: np.random.Generator, blocks: int, rate: float, tries: int, bursts: float | None
) -> Side:
    """Draw hits by block: binomial; with ``bursts``, the rate itself varies with this CV."""
    rates = np.full(blocks, rate)
    if bursts is not None:
        a = (1 - rate) / bursts**2 - rate
        rates = source.beta(a, a * (1 - rate) / rate, size=blocks)
    return [(int(hits), tries) for hits in source.binomial(tries, rates)]


def share(
    said: str, repeats: int, seed: int, *sides: tuple[int, float, int, float | None]
) -> float:
    """Return how often two sides, drawn with these blocks, rates, tries and bursts, are so."""
    source = np.random.default_rng(seed)
    drawn_sides = ([drawn(source, *side) for side in sides] for _ in range(repeats))
    return sum(shown(one, other) == said for one, other in drawn_sides) / repeats


def at_most(repeats: int) -> float:
    """Return the upper limit of a simulated share of 0.05, exceeded by chance once in 200 times."""
    return 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("blocks", [3, 10])
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
def test_equal_rates_rarely_differ_when_errors_come_in_bursts(
    blocks: int, rate: float, tries: int, bursts: float | None
) -> None:
    side = (blocks, rate, tries, bursts)
    assert share("different", 1_000, 20_260_105, side, side) <= at_most(1_000)


@pytest.mark.parametrize("blocks", [3, 10])
@pytest.mark.parametrize(
    ("rate", "tolerance", "tries", "bursts"),
    [
        (0.0, 0.001, 20_000, None),
        (0.0, 0.001, 300, None),
        (0.0, 0.01, 100, None),
        (0.002, 0.01, 1_000, None),
        (0.02, 0.01, 500, None),
        (0.02, 0.01, 100_000, 0.2),
        (0.02, 0.01, 100_000, 0.5),
        (0.05, 0.005, 100_000, 0.2),
        (0.05, 0.005, 100_000, 0.5),
    ],
)
def test_rates_that_differ_by_the_tolerance_are_rarely_called_equal(
    blocks: int, rate: float, tolerance: float, tries: int, bursts: float | None
) -> None:
    source = np.random.default_rng(20_260_611)
    repeats = 1_000
    equal = 0
    for _ in range(repeats):
        one = drawn(source, blocks, rate, tries, bursts) if rate else [(0, tries)] * blocks
        other = drawn(source, blocks, rate + tolerance, tries, bursts)
        # Trials without any hit did the same work, whatever their true rates.
        if any(hits for hits, _ in one + other):
            equal += shown(one, other, tolerance) == "equal"
    assert equal / repeats <= at_most(repeats)


@pytest.mark.parametrize(
    ("blocks", "rate", "tries", "bursts", "least"),
    [
        (3, 0.02, 20_000, None, 0.9),
        (5, 0.02, 20_000, None, 0.9),
        (5, 0.0005, 100_000, None, 0.99),
        (5, 0.02, 100_000, 0.1, 0.9),
        (10, 0.05, 100_000, 0.1, 0.9),
    ],
)
def test_like_rates_are_shown_to_be_equal_by_enough_requests(
    blocks: int, rate: float, tries: int, bursts: float | None, least: float
) -> None:
    side = (blocks, rate, tries, bursts)
    assert share("equal", 400, 20_260_612, side, side) >= least


@pytest.mark.parametrize(
    ("blocks", "other", "tries", "least"),
    [(3, 0.006, 20_000, 0.95), (5, 0.003, 20_000, 0.99), (3, 0.05, 1_000, 0.99)],
)
def test_unequal_rates_are_different(blocks: int, other: float, tries: int, least: float) -> None:
    sides = ((blocks, rate, tries, None) for rate in (0.001, other))
    assert share("different", 400, 7, *sides) >= least


def ever(rates: tuple[float, float], bursts: float, said: str, looks: Looks) -> float:
    """Return how often these rates are shown at any look, after the fifth to the 16th block."""
    most = 16
    source = np.random.default_rng(20_260_801)
    repeats, count = 150, 0
    for _ in range(repeats):
        one, other = (drawn(source, most, rate, 100_000, bursts) for rate in rates)
        seen = (shown(one[:n], other[:n], looks=looks) for n in range(5, most + 1))
        count += said in seen
    return count / repeats


@pytest.mark.parametrize(
    ("rates", "bursts", "said"),
    [((0.05, 0.05), 1.0, "different"), ((0.005, 0.005), 0.5, "different"),
     ((0.02, 0.03), 0.2, "equal")],
)  # fmt: skip
def test_what_is_shown_at_any_of_many_looks_is_rarely_wrong(
    rates: tuple[float, float], bursts: float, said: str
) -> None:
    assert ever(rates, bursts, said, "any") <= at_most(150)


def test_looks_by_what_holds_for_one_would_be_wrong_far_more_often() -> None:
    assert ever((0.05, 0.05), 1.0, "different", "once") > 0.5


def test_what_is_to_be_seen_is_seen_by_looks() -> None:
    assert ever((0.01, 0.03), 0.5, "different", "any") >= 0.9
    assert ever((0.005, 0.005), 0.3, "equal", "any") >= 0.95


def test_one_wild_block_is_enough_unless_there_may_be_more() -> None:
    base = [(0, 100_000)] * 5
    wild = [(0, 100_000)] * 4 + [(20_000, 100_000)]
    assert shown(base, wild) == "different"
    assert shown(base, wild, looks="any") == "neither"


def test_a_difference_that_cannot_be_proved_is_not_equality() -> None:
    bursts = [(300, 100_000), (200, 100_000), (900, 100_000)]
    assert shown([(100, 100_000)] * 3, bursts) == "neither"
    assert shown([(100, 10_000)] * 2, [(120, 10_000)] * 2) != "equal", "two blocks tell no spread"


def test_what_does_not_matter_is_no_difference_however_sure() -> None:
    assert shown([(0, 10_000_000)] * 5, [(9_000, 10_000_000)] * 5) == "equal"
    assert shown([(0, 10_000_000)] * 5, [(11_000, 10_000_000)] * 5) == "different"


def test_no_hits_at_all_are_equal_however_few_the_tries() -> None:
    assert shown([(0, 20)], [(0, 20)]) == "equal"
    assert shown([(0, 0)] * 3, [(0, 0)] * 3) == "equal"


def test_a_few_requests_prove_nothing() -> None:
    assert shown([(0, 20)], [(1, 20)]) == "neither"
    assert shown([(0, 200)] * 5, [(0, 200)] * 4 + [(1, 200)]) == "equal"
    assert shown([(1, 20)] * 5, [(1, 20)] * 5) == "neither", "like by chance"


sides = st.lists(
    st.integers(0, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=6,
)


@given(sides, st.sampled_from(["once", "any"]))
def test_a_treatment_does_not_differ_from_itself(side: Side, looks: Looks) -> None:
    assert shown(side, side, looks=looks) != "different"


@given(sides, sides, st.sampled_from(["once", "any"]))
def test_it_does_not_matter_which_side_is_the_base(one: Side, other: Side, looks: Looks) -> None:
    blocks = min(len(one), len(other))
    found = compare_rates(one[:blocks], other[:blocks], tolerance=TOLERANCE, looks=looks)
    swapped = compare_rates(other[:blocks], one[:blocks], tolerance=TOLERANCE, looks=looks)
    assert found.shown == swapped.shown
    assert (found.base, found.candidate) == (swapped.candidate, swapped.base)


@pytest.mark.parametrize(
    ("base", "candidate"), [([], []), ([(0, 1)], []), ([(2, 1)], [(0, 1)]), ([(-1, 1)], [(0, 1)])]
)
def test_counts_that_cannot_be_are_refused(base: Side, candidate: Side) -> None:
    with pytest.raises(ValueError, match=r"blocks of the base|between 0 and the number of tries"):
        compare_rates(base, candidate, tolerance=TOLERANCE)


def test_a_tolerance_below_what_is_negligible_is_refused() -> None:
    with pytest.raises(ValueError, match="tolerance"):
        compare_rates([(0, 1)], [(0, 1)], tolerance=0.0005)
