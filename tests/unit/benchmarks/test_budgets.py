"""Test the parts of `benchmarks/budgets` that need no server."""

from typing import Any

import pytest

from benchmarks.budgets import comparisons


def document(**changes: Any) -> dict[str, Any]:
    of_throughput = {
        "candidate": "B", "fixed_factors": {"test": "scan"}, "metric": "throughput", "ratio": 0.9,
        "low": 0.8, "high": 1.0, "verdict": "regression", "may_be_chance": False,
        "first_cause": None,
    }  # fmt: skip
    other = {**of_throughput, "metric": "response_time"}
    metrics = [
        {"name": "response_time", "headline": False},
        {"name": "throughput", "headline": True},
    ]
    return {"metrics": metrics, "comparisons": [{**of_throughput, **changes}, other]}


@pytest.mark.parametrize(
    ("verdict", "may_be_chance", "decided"),
    [
        ("regression", False, True),
        ("improvement", False, True),
        ("equivalent", False, True),
        ("regression", True, False),
        ("inconclusive", False, False),
        (None, False, False),
    ],
)
def test_a_difference_that_may_be_chance_is_not_decided(
    verdict: str | None, may_be_chance: bool, decided: bool
) -> None:
    (found,) = comparisons(document(verdict=verdict, may_be_chance=may_be_chance))
    assert (found.group, found.decided) == ("scan", decided)


@pytest.mark.parametrize(
    ("ratio", "is_large"), [(0.84, True), (0.86, False), (1.17, False), (1.18, True), (None, False)]
)
def test_a_large_difference_is_one_either_way(ratio: float | None, is_large: bool) -> None:
    (found,) = comparisons(document(ratio=ratio))
    assert found.is_large == is_large
