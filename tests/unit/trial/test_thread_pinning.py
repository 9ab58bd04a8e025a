"""Test that the threads which serve several clients are distinguished from all others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.trial.thread_pinning import serving_threads

PINGS = 1_000


@given(
    st.lists(st.integers(PINGS // 10, PINGS), min_size=2, max_size=40),
    st.lists(st.integers(0, PINGS // 20), max_size=40),
    st.integers(0, 10**6),
)
def test_the_threads_that_slept_between_pings_serve(
    serving: list[int], others: list[int], already: int
) -> None:
    counts = [*serving, *others]
    before = dict.fromkeys(range(len(counts)), already)
    after = {thread: already + count for thread, count in enumerate(counts)}
    found = serving_threads(before, after, len(serving), PINGS)
    assert found == list(range(len(serving)))


@pytest.mark.parametrize(
    "after",
    [
        {1: 900, 2: 900},  # a pool of fewer threads than clients
        {1: 900, 2: 900, 3: 90},  # one that hardly slept
        {1: 900, 2: 900, 3: 900, 4: 500},  # one thread more that slept as often
        {},
    ],
)
def test_none_is_taken_where_it_is_unclear(after: dict[int, int]) -> None:
    assert serving_threads({}, after, 3, PINGS) == []


def test_a_thread_that_was_there_before_counts_from_then() -> None:
    before, after = {1: 10_000, 2: 5}, {1: 10_040, 2: 905, 3: 800}
    assert serving_threads(before, after, 2, PINGS) == [2, 3]
