"""Test which thread serves the client, by its number of sleeps."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.server_processes import ServerProcesses
from millrace.trial.thread_placement import PINGS, Activity, serves, serving_thread, switches

counts = st.dictionaries(st.integers(1, 50), st.integers(0, 10**9))


@given(counts, st.integers(51, 99), st.integers(PINGS // 10, 2 * PINGS), st.booleans())
def test_the_thread_that_slept_for_each_ping_serves(
    before: dict[int, int], serving: int, pinged: int, cached: bool
) -> None:
    others = {thread: count + pinged // 2 for thread, count in before.items()}
    earlier = {serving: 7} if cached else {}
    after = {**others, serving: pinged + earlier.get(serving, 0)}
    assert serving_thread({**before, **earlier}, after) == serving


@given(counts)
def test_without_pings_nobody_serves(before: dict[int, int]) -> None:
    after = {thread: count + PINGS // 10 - 1 for thread, count in before.items()}
    assert serving_thread(before, after) is None


def test_of_two_that_may_be_it_neither_is_taken() -> None:
    assert serving_thread({1: 0, 2: 0}, {1: PINGS, 2: PINGS // 2 + 1}) is None


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
    assert serving_thread(before, after) == naps.native_id


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
