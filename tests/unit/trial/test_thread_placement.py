"""Test which thread serves the client, by its number of sleeps."""

from __future__ import annotations

import os
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.server_processes import ServerProcesses
from millrace.trial.thread_placement import PINGS, serving_thread, switches

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
