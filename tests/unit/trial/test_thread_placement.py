"""Test which threads serve clients, by their numbers of sleeps."""

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.server_processes import ServerProcesses
from millrace.trial.thread_placement import PINGS, Activity, serves, serving_threads, switches

counts = st.dictionaries(st.integers(1, 50), st.integers(0, 10**9))


@given(counts, st.integers(51, 99), st.integers(PINGS // 10, 2 * PINGS), st.booleans())
def test_the_thread_that_slept_for_each_ping_serves(
    before: dict[int, int], serving: int, pinged: int, cached: bool
) -> None:
    others = {thread: count + pinged // 2 for thread, count in before.items()}
    earlier = {serving: 7} if cached else {}
    after = {**others, serving: pinged + earlier.get(serving, 0)}
    assert serving_threads({**before, **earlier}, after, 1, PINGS) == [serving]


@given(counts)
def test_without_pings_nobody_serves(before: dict[int, int]) -> None:
    after = {thread: count + PINGS // 10 - 1 for thread, count in before.items()}
    assert serving_threads(before, after, 1, PINGS) == []


def test_the_switches_of_threads_that_run_are_counted() -> None:
    before = switches(ServerProcesses(os.getpid()))
    napped, counted = threading.Event(), threading.Event()

    def nap() -> None:
        for _ in range(PINGS):
            time.sleep(0.0005)
        napped.set()
        counted.wait()

    naps = threading.Thread(target=nap)
    naps.start()
    napped.wait()
    after = switches(ServerProcesses(os.getpid()))
    counted.set()
    naps.join()
    assert threading.get_native_id() in before
    assert serving_threads(before, after, 1, PINGS) == [naps.native_id]


IDLE, QUICK, SLOW = Activity(0, 0), Activity(50, 100_000), Activity(1, 5_000_000)
BEFORE = {1: Activity(7, 9), 2: Activity(10**6, 10**9)}


def later(**caused: Activity) -> dict[int, Activity]:
    """Return the threads after what was caused in the first and the second."""
    first, second = caused.get("first", IDLE), caused.get("second", IDLE)
    return {
        1: Activity(7 + first.switches, 9 + first.cpu_ns),
        2: Activity(10**6 + second.switches, 10**9 + second.cpu_ns),
    }


@pytest.mark.parametrize(
    ("caused", "confirmed"),
    [
        ({}, None),
        ({"first": QUICK}, True),
        ({"first": SLOW}, True),
        ({"second": QUICK}, None),
        ({"second": Activity(101, 0)}, False),
        ({"second": SLOW}, None),
        ({"second": Activity(1, 10_000_001)}, False),
        ({"first": QUICK, "second": Activity(100, 10**9)}, True),
        ({"first": QUICK, "second": Activity(101, 10**9)}, False),
        ({"first": SLOW, "second": Activity(10**6, 10_000_000)}, True),
        ({"first": Activity(49, 4_999_999)}, None),
    ],
)
def test_statements_confirm_the_thread_that_they_wake_or_that_works(
    caused: dict[str, Activity], confirmed: bool | None
) -> None:
    assert serves(1, BEFORE, later(**caused)) is confirmed


def test_a_thread_that_has_ended_serves_nobody() -> None:
    assert not serves(3, BEFORE, later(first=Activity(101, 0)))
    assert serves(1, {}, {1: QUICK}), "a new one may"


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
    ("after", "clients"),
    [
        ({1: PINGS, 2: PINGS // 2 + 1}, 1),
        ({1: 900, 2: 900}, 3),  # a pool of fewer threads than clients
        ({1: 900, 2: 900, 3: 90}, 3),  # one that hardly slept
        ({1: 900, 2: 900, 3: 900, 4: 500}, 3),  # one thread more that slept as often
        ({}, 3),
    ],
)
def test_none_is_taken_where_it_is_unclear(after: dict[int, int], clients: int) -> None:
    assert serving_threads({}, after, clients, PINGS) == []


def test_a_thread_that_was_there_before_counts_from_then() -> None:
    before, after = {1: 10_000, 2: 5}, {1: 10_040, 2: 905, 3: 800}
    assert serving_threads(before, after, 2, PINGS) == [2, 3]
