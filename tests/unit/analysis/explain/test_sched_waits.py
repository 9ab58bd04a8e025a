"""Test the scheduler's events on sampled states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.explain.threads import wait_factors
from millrace.model.sampled_threads import SampledThread, SchedEvents


def thread(tid: int = 7, **seconds: float) -> SampledThread:
    unknown = dict.fromkeys(("syscall", "wchan", "target"))
    states = [
        {"class": name, "count": 10, "seconds": each, "during_sync": 0, **unknown}
        for name, each in seconds.items()
    ]
    return SampledThread.model_validate({"tid": tid, "kind": "connection", "states": states})


def wait(state: str, by: str, seconds: float, count: int = 1000) -> dict[str, Any]:
    return {"state": state, "woken_by": by, "count": count, "seconds": seconds}


def section(
    *waits: Mapping[str, Any], tid: int = 7, unknown_s: float = 0.0, windows: int = 10
) -> SchedEvents:
    """Return the section of ten windows of 10 ms."""
    blocked_s = math.fsum(wait["seconds"] for wait in waits)
    by_class = {"blocked_s": blocked_s, "unknown_s": unknown_s, "windows": windows}
    threads = [{"tid": tid, **by_class, "waits": list(waits)}]
    return SchedEvents.model_validate({"windows": 10, "seconds": 0.1, "threads": threads})


def test_a_class_is_made_as_long_as_the_events_say() -> None:
    sampled = [thread(lock=6.0, running=3.0, network=1.0)]
    by_class = section(wait("S", "own", 0.03), wait("S", "other", 0.02))
    assert wait_factors(sampled, by_class) == {
        "lock": pytest.approx(0.5), "network": pytest.approx(2.0), "running": pytest.approx(5 / 3)
    }  # fmt: skip
    # Windows without data are left out.
    found = wait_factors(sampled, section(wait("S", "own", 0.03), unknown_s=0.002))
    assert found["lock"] == pytest.approx(0.03 / 0.098 * 10 / 6)
    assert found["running"] == pytest.approx(0.068 / 0.098 * 10 / 3)


def test_running_is_what_the_events_tell_and_not_what_is_left() -> None:
    """Reads that samples see too rarely do not make it longer."""
    by_class = section(wait("S", "own", 0.03), wait("D", "kernel", 0.04))
    found = wait_factors([thread(lock=6.0, running=3.0, data_read=1.0)], by_class)
    assert found == {"lock": pytest.approx(0.5), "running": pytest.approx(1.0)}


def test_what_the_kernel_ended_is_as_it_was_sampled() -> None:
    by_class = section(wait("D", "kernel", 0.05), wait("D", "own", 0.05))
    assert wait_factors([thread(lock=6.0, running=4.0)], by_class) == {}


def test_sleep_that_the_kernel_ends_is_shared_out_as_it_was_sampled() -> None:
    by_class = section(wait("S", "own", 0.03), wait("S", "kernel", 0.01, count=9))
    found = wait_factors([thread(lock=6.0, running=4.0)], by_class)
    assert found["lock"] == pytest.approx(0.4 * 10 / 6)
    assert found["running"] == pytest.approx(0.6 * 10 / 4)
    found = wait_factors([thread(lock=6.0, sleep=2.0, running=2.0)], by_class)
    assert found["lock"] == pytest.approx(0.375 * 10 / 6)
    assert "sleep" not in found


@pytest.mark.parametrize(
    "by_class",
    [
        SchedEvents(),
        section(),
        section(wait("S", "own", 0.03, count=29)),
        section(wait("S", "own", 0.03, count=50)),  # 600 µs each
        section(wait("S", "own", 0.03), unknown_s=0.0031),
        section(wait("S", "own", 0.03), windows=2),
        section(wait("S", "own", 0.03), tid=8),
        section(wait("S", "other", 0.03)),  # never sampled
    ],
    ids=[
        "none", "no wait", "too few", "too long", "unknown", "few windows",
        "another thread", "never sampled",
    ],
)  # fmt: skip
def test_where_events_tell_too_little_samples_stay_as_they_are(by_class: SchedEvents) -> None:
    assert wait_factors([thread(lock=6.0, running=4.0)], by_class) == {}


def test_all_threads_are_like_those_that_were_listened_to() -> None:
    sampled = [thread(7, lock=6.0, running=4.0), thread(8, lock=2.0, running=8.0)]
    found = wait_factors(sampled, section(wait("S", "own", 0.02)))
    assert found["lock"] == pytest.approx(0.2 * 20 / 8)


@given(
    st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0, 0.04),
    st.floats(0, 0.04),
)  # fmt: skip
def test_what_threads_did_stays_the_whole(
    lock: float, network: float, running: float, own_s: float, other_s: float
) -> None:
    by_class = section(wait("S", "own", own_s), wait("S", "other", other_s))
    found = wait_factors([thread(lock=lock, network=network, running=running)], by_class)
    assert all(factor >= 0 for factor in found.values())
    seconds = {"lock": lock, "network": network, "running": running}
    after = math.fsum(found[name] * each for name, each in seconds.items())
    assert after == pytest.approx(math.fsum(seconds.values()))
