"""Test the verdict rule, on invented estimates for each of its cases."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.verdict import decide, power
from millrace.stats.ratio import RatioEstimate, paired_ratio
from tests.support.known import known

Direction = Literal["higher", "lower"]
MARGIN = 0.02


def estimate(low: float, ratio: float, high: float, n_pairs: int = 5) -> RatioEstimate:
    return RatioEstimate(ratio, low, high, n_pairs, 0.95, 0.01)


@pytest.mark.parametrize(
    ("low", "ratio", "high", "direction", "expected"),
    [
        (0.887, 0.902, 0.917, "higher", "regression"),
        (0.887, 0.902, 0.917, "lower", "improvement"),
        (1.05, 1.10, 1.15, "higher", "improvement"),
        (1.05, 1.10, 1.15, "lower", "regression"),
        (0.990, 1.000, 1.010, "higher", "equivalent"),
        (1.005, 1.010, 1.015, "higher", "equivalent"),  # real, but inside the margin
        (0.960, 0.985, 1.010, "higher", "inconclusive"),
        (0.970, 0.985, 0.999, "higher", "inconclusive"),  # real, but perhaps within the margin
        (0.800, 0.900, 1.010, "higher", "inconclusive"),  # large, but perhaps nothing
        (0.975, 0.9803, 0.995, "higher", "regression"),  # just beyond 1 / 1.02
        (0.975, 0.9805, 0.995, "higher", "inconclusive"),  # just within
    ],
)
def test_each_case(
    low: float, ratio: float, high: float, direction: Direction, expected: str
) -> None:
    verdict, reason = decide(estimate(low, ratio, high), direction, MARGIN)
    assert verdict == expected
    assert "2 %" in reason


def test_inconclusive_verdict_has_a_reason() -> None:
    _, unknown = decide(estimate(0.960, 0.985, 1.010), "higher", MARGIN)
    assert unknown == "the interval includes no difference and differences beyond 2 %"
    _, small = decide(estimate(0.970, 0.985, 0.999), "higher", 0.025)
    assert small.startswith("a real difference")
    assert "within 2.5 %" in small


@pytest.mark.parametrize(("n_pairs", "said"), [(1, "1 block;"), (2, "2 blocks;")])
def test_too_few_blocks_give_no_verdict(n_pairs: int, said: str) -> None:
    verdict, reason = decide(estimate(0.5, 0.6, 0.7, n_pairs), "higher", MARGIN)
    assert verdict is None
    assert reason == f"{said} at least 3 are needed"


logs = st.floats(min_value=-0.5, max_value=0.5)


@given(st.tuples(logs, logs, logs), st.floats(min_value=0.001, max_value=0.3))
def test_rates_and_times_agree(points: tuple[float, float, float], margin: float) -> None:
    """The verdict on rows/s is that on the seconds of the same trials."""
    low, ratio, high = (2.0**point for point in sorted(points))
    rates, _ = decide(estimate(low, ratio, high), "higher", margin)
    times, _ = decide(estimate(1 / high, 1 / ratio, 1 / low), "lower", margin)
    assert rates == times


@given(st.tuples(logs, logs, logs), st.floats(min_value=0.001, max_value=0.3))
def test_swapping_the_sides_swaps_the_verdict(
    points: tuple[float, float, float], margin: float
) -> None:
    low, ratio, high = (2.0**point for point in sorted(points))
    one, _ = decide(estimate(low, ratio, high), "higher", margin)
    other, _ = decide(estimate(1 / high, 1 / ratio, 1 / low), "higher", margin)
    swapped = {"regression": "improvement", "improvement": "regression"}
    assert other == swapped.get(str(one), one)


def test_any_number_of_looks_want_more_than_one_look_for_the_same_verdict() -> None:
    base, candidate = [100.0, 101.0, 99.5, 100.2, 100.9], [96.0, 96.0, 97.5, 94.0, 98.9]
    once = paired_ratio(base, candidate)
    assert decide(once, "higher", MARGIN)[0] == "regression"
    often = paired_ratio(base, candidate, looks="any")
    assert decide(often, "higher", MARGIN)[0] == "inconclusive"
    few, many = power(once, MARGIN), power(often, MARGIN)
    assert few is not None
    assert many is not None
    assert few.more_blocks == 0
    assert 0 < known(many.more_blocks) < 20
    assert 0 < few.minimum_detectable < many.minimum_detectable


@pytest.mark.parametrize("blocks", [1, 2])
def test_before_there_is_a_verdict_nobody_knows_how_far_it_is(blocks: int) -> None:
    found = paired_ratio([1.0, 1.1][:blocks], [1.2, 1.3][:blocks], looks="any")
    assert decide(found, "higher", MARGIN)[0] is None
    assert power(found, MARGIN) is None


@given(st.tuples(logs, logs, logs, logs), st.floats(min_value=0.001, max_value=0.3))
def test_no_more_blocks_are_wanted_exactly_where_it_is_decided(
    points: tuple[float, float, float, float], margin: float
) -> None:
    found = paired_ratio([1.0] * 4, [2.0**point for point in points])
    seen = known(power(found, margin))
    verdict, _ = decide(found, "higher", margin)
    assert (verdict == "inconclusive") == (seen.more_blocks != 0)
