"""Test the conversion of a trace's text to waits, and the section that has them."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.collectors import as_json
from millrace.collect.sched_waits import (
    ActivitySample,
    Event,
    Sum,
    SwitchIn,
    SwitchOut,
    Waits,
    Waker,
    Wakeup,
    Waking,
    Window,
    blocked,
    filters,
    missing,
    parse,
    scheduled_statements,
    state_at,
    waits,
    wakers,
    weighted,
)
from millrace.model.sampled_threads import ScheduledStatement

TRACE = """\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          mysqld-4711    [001] d..2.   100.000010: sched_switch: prev_comm=mysqld prev_pid=4711 \
prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
   log-writer 2-4720    [000] dN.4.   100.000040: sched_waking: comm=mysqld pid=4711 prio=120 \
target_cpu=001
          <idle>-0       [001] dNh2.   100.000062: sched_wakeup: comm=mysqld pid=4711 prio=120 \
target_cpu=001
          <idle>-0       (-----) [001] dNh2.   100.000070: sched_waking: comm=a b pid=4712 \
prio=-2 target_cpu=001
          mysqld-4711    [001] d..2.   100.000090: sched_switch: prev_comm=odd ==> name \
prev_pid=4711 prev_prio=120 prev_state=R+ ==> next_comm=x next_pid=9 next_prio=120
          mysqld-4711    [001] d..2.   100.000091: sched_stat_runtime: comm=mysqld pid=4711
"""


def test_the_text_of_a_trace() -> None:
    assert list(parse(TRACE.splitlines())) == [
        SwitchOut(100.000010, 4711, "S", 0),
        SwitchIn(100.000010, 0),
        Waking(100.000040, 4711, 4720),
        Wakeup(100.000062, 4711),
        Waking(100.000070, 4712, None),
        SwitchOut(100.000090, 4711, "R+", 9),
        SwitchIn(100.000090, 9),
    ]


@given(st.text())
def test_what_is_no_event_is_none(line: str) -> None:
    assert list(parse([line])) == []


def waker(tid: int) -> Waker:
    return "own" if tid < 100 else "other"


WINDOW = Window(0.0, 10.0)


def seen(*events: Event, window: Window = WINDOW) -> Waits:
    (found,) = waits(events, [window], [7], waker).values()
    return found


def sums(found: Waits) -> list[tuple[str, Waker, int, float]]:
    return [
        (state, by, each.count, round(each.seconds, 9))
        for (state, by), each in sorted(found.sums.items())
    ]


def test_a_wait_is_from_leaving_a_cpu_to_the_queue_of_one() -> None:
    found = seen(
        SwitchOut(1.0, 7, "S", 0),
        Waking(1.3, 7, 8),
        Wakeup(1.4, 7),
        SwitchOut(2.0, 7, "R", 0),
        SwitchOut(3.0, 7, "S", 0),
        Waking(3.5, 7, 200),
        Wakeup(3.5, 7),
        SwitchOut(4.0, 7, "D|K", 0),
        Waking(6.0, 7, None),
        Wakeup(6.0, 7),
    )
    assert sums(found) == [("D", "kernel", 1, 2.0), ("S", "other", 1, 0.5), ("S", "own", 1, 0.4)]
    assert found.blocked_s == pytest.approx(2.9)
    assert (found.unknown_s, found.windows) == (0.0, 1)


def test_events_of_several_cpus_are_put_in_order() -> None:
    found = seen(Wakeup(1.5, 7), Waking(1.4, 7, 0), SwitchOut(1.0, 7, "S", 0))
    assert sums(found) == [("S", "kernel", 1, 0.5)]


def test_of_waits_that_reach_into_a_window_what_is_inside_counts_for_those_that_reach_out() -> None:
    found = seen(Waking(1.0, 7, 8), Wakeup(1.5, 7), SwitchOut(8.0, 7, "S", 0))
    assert sums(found) == [("S", "own", 1, 3.0)]
    assert found.blocked_s == pytest.approx(1.5 + 2.0)
    # The kind of its sleep is unknown, and the kernel ends more than one kind of sleep.
    assert sums(seen(Waking(1.0, 7, None), Wakeup(1.5, 7))) == [("?", "kernel", 1, 3.0)]
    assert sums(seen(SwitchOut(8.0, 7, "S", 0))) == []


def test_one_that_is_woken_before_it_has_left_its_cpu() -> None:
    found = seen(SwitchIn(0.5, 7), Waking(1.0, 7, 8), SwitchOut(1.1, 7, "S", 0), Wakeup(1.2, 7))
    assert sums(found) == [("S", "own", 1, 0.1)]


def test_nothing_is_known_of_a_thread_without_events() -> None:
    assert seen(SwitchOut(1.0, 8, "S", 0), Wakeup(2.0, 8)).unknown_s == 10.0
    assert (
        seen(SwitchOut(1.0, 7, "S", 0), Wakeup(2.0, 7), window=Window(3.0, 4.0, 2.0)).unknown_s
        == 2.0
    )


def test_windows_weigh_what_they_stand_for() -> None:
    events: list[Event] = [SwitchOut(1.0, 7, "S", 0), Waking(1.5, 7, 8), Wakeup(1.5, 7)]
    found = seen(*events, window=Window(0.0, 2.0, 3.0))
    assert sums(found) == [("S", "own", 1, 1.5)]
    assert found.blocked_s == 1.5


@pytest.mark.parametrize("mean_s", [0.0005, 0.005, 0.03])
def test_shares_are_those_of_the_time_however_long_waits_are(mean_s: float) -> None:
    """Shares of time are right for waits of any length.

    A thread runs for a millisecond and then waits, alternately for its own and for others, one half
    as long as the other, in windows of 10 ms.
    """
    source = np.random.default_rng(5)
    events: list[Event] = []
    truth = {"own": 0.0, "other": 0.0}
    now_s, by = 0.0, 8
    while now_s < 100.0:
        now_s += source.exponential(0.001)
        waited_s = source.exponential(mean_s if by == 8 else mean_s / 2)
        events += [SwitchOut(now_s, 7, "S", 0), Waking(now_s + waited_s, 7, by)]
        events.append(Wakeup(now_s + waited_s, 7))
        truth["own" if by == 8 else "other"] += waited_s
        now_s, by = now_s + waited_s, 208 - by
    windows = [Window(at_s, at_s + 0.01) for at_s in np.arange(0.0, now_s - 1, 0.025)]
    (found,) = waits(events, windows, [7], waker).values()
    known_s = sum(window.seconds for window in windows) - found.unknown_s
    blocked = found.blocked_s / known_s
    assert blocked == pytest.approx(sum(truth.values()) / now_s, rel=0.05 + found.unknown_s / 40)
    for who, seconds in truth.items():
        told_s = sum(each.seconds for (_, by), each in found.sums.items() if by == who)
        if mean_s < 0.01:  # longer ones extend beyond both ends of a window
            assert told_s / known_s == pytest.approx(seconds / now_s, rel=0.1), who


def test_a_wait_whose_end_was_not_seen_is_forgotten() -> None:
    found = seen(
        SwitchOut(1.0, 7, "S", 0), SwitchOut(5.0, 7, "S", 0), Waking(5.5, 7, 8), Wakeup(5.5, 7)
    )
    assert sums(found) == [("S", "own", 1, 0.5)]


def test_windows_are_summed() -> None:
    events: list[Event] = [
        SwitchOut(1.0, 7, "S", 0), Waking(1.1, 7, 8), Wakeup(1.1, 7), SwitchOut(2.0, 7, "S", 0),
        Waking(2.5, 7, 8), Wakeup(2.5, 7), SwitchOut(3.0, 7, "S", 0),
    ]  # fmt: skip
    (found,) = waits(events, [Window(0.5, 1.5), Window(1.5, 2.6)], [7], waker).values()
    assert sums(found) == [("S", "own", 2, 0.6)]
    assert found.windows == 2


@given(
    st.lists(
        st.tuples(st.sampled_from([7, 8]), *[st.floats(0.001, 0.1)] * 3), min_size=1, max_size=40
    )
)
def test_waits_that_are_seen_as_a_whole_are_all_sums(
    spans: Sequence[tuple[int, float, float, float]],
) -> None:
    now = {7: 0.0, 8: 0.0}
    events: list[Event] = []
    expected = {7: 0.0, 8: 0.0}
    for tid, ran, waited, ready in spans:
        left = now[tid] + ran
        events += [
            SwitchOut(left, tid, "S", 0),
            Waking(left + waited, tid, 8),
            Wakeup(left + waited, tid),
        ]
        now[tid] = left + waited + ready
        expected[tid] += waited
    found = waits(events, [Window(0.0, max(now.values()))], [7, 8], waker)
    for tid, of_thread in found.items():
        assert sum(each.seconds for each in of_thread.sums.values()) == pytest.approx(expected[tid])
        assert sum(each.count for each in of_thread.sums.values()) == sum(
            tid == each for each, *_ in spans
        )


SAMPLER = 99


def test_what_a_thread_did_at_a_moment() -> None:
    events: list[Event] = [
        Waking(0.5, 7, 8),
        SwitchIn(1.0, 7),
        SwitchOut(2.0, 7, "S", 0),
        Waking(2.9, 7, 8),
        Wakeup(3.0, 7),
        SwitchIn(4.0, 7),
        SwitchOut(5.0, 7, "R+", 8),
        SwitchIn(6.0, 7),
        Wakeup(6.5, 7),  # before it had left its CPU
        SwitchOut(7.0, 7, "R", SAMPLER),
    ]
    moments = (0.6, 1.5, 2.95, 3.5, 4.5, 5.5, 6.2, 6.8, 7.00005, 7.5)
    assert [state_at(events, at_s, SAMPLER) for at_s in moments] == [
        "ready", "on_cpu", "blocked", "ready", "on_cpu", "ready", "on_cpu", "on_cpu",
        "on_cpu", "ready",
    ]  # fmt: skip
    assert state_at([], 1.0, SAMPLER) is None
    assert state_at([Waking(2.0, 7, 8)], 1.0, SAMPLER) is None
    assert state_at([SwitchOut(2.0, 7, "D", 0)], 1.0, SAMPLER) == "on_cpu"
    assert state_at([Wakeup(2.0, 7)], 1.0, SAMPLER) == "blocked"


@given(
    st.lists(
        st.tuples(st.sampled_from(["on_cpu", "ready", "blocked"]), st.floats(0.01, 1.0)),
        min_size=1,
        max_size=30,
    ),
    st.data(),
)
def test_what_happened_is_what_is_sums(
    spans: Sequence[tuple[str, float]], data: st.DataObject
) -> None:
    """Compare with a thread's life as spans of time, from a CPU to a CPU by way of the queue."""
    events: list[Event] = []
    truth: list[tuple[float, float, str]] = []
    now_s, state = 0.0, "on_cpu"
    for wanted, length_s in spans:
        if state == "on_cpu" and wanted != "on_cpu":
            events.append(SwitchOut(now_s, 7, "S" if wanted == "blocked" else "R", 8))
            state = wanted
        elif state == "blocked" and wanted == "ready":
            events += [Waking(now_s, 7, 8), Wakeup(now_s, 7)]
            state = wanted
        elif state == "ready" and wanted == "on_cpu":
            events.append(SwitchIn(now_s, 7))
            state = wanted
        truth.append((now_s, now_s + length_s, state))
        now_s += length_s
    begin_s, end_s, did = data.draw(st.sampled_from(truth))
    found = state_at(events, (begin_s + end_s) / 2, SAMPLER)
    assert found == did or (found is None and not events)


def test_the_section() -> None:
    waits = Waits(blocked_s=0.004, unknown_s=0.25, windows=1)
    waits.sums["S", "other"] = Sum(2, 0.001)
    waits.sums["S", "own"] = Sum(20, 0.003)
    assert as_json(blocked({7: waits, 5: Waits()})) == [
        {"tid": 5, "blocked_s": 0.0, "unknown_s": 0.0, "windows": 0, "waits": []},
        {
            "tid": 7,
            "blocked_s": 0.004,
            "unknown_s": 0.25,
            "windows": 1,
            "waits": [
                {"state": "S", "woken_by": "own", "count": 20, "seconds": 0.003},
                {"state": "S", "woken_by": "other", "count": 2, "seconds": 0.001},
            ],
        },
    ]


def test_only_what_is_about_these_threads_is_let_through() -> None:
    woken = {"sched_waking": "pid==7||pid==9", "sched_wakeup": "pid==7||pid==9"}
    assert filters({9, 7}, both=False) == {"sched_switch": "prev_pid==7||prev_pid==9", **woken}
    assert filters({9, 7}, both=True) == {
        "sched_switch": "prev_pid==7||prev_pid==9||next_pid==7||next_pid==9",
        **woken,
    }


def test_looks_at_statements_find_threads_on_a_cpu_or_ready() -> None:
    events: list[Event] = [
        SwitchIn(1.1, 7), SwitchOut(1.3, 7, "S", 0), Wakeup(1.6, 7), SwitchIn(1.7, 7),
        SwitchIn(1.2, 9), SwitchOut(1.4, 9, "R", 5), SwitchIn(1.8, 9), SwitchOut(2.9, 9, "S", 0),
    ]  # fmt: skip
    samples = [
        ActivitySample(1.25, {7: "a", 9: "b"}),  # on a CPU in both
        ActivitySample(1.5, {7: "a", 9: "b"}),  # blocked, and filtered out
        ActivitySample(1.65, {7: "b"}),  # woken, but without a CPU yet
        ActivitySample(1.75, {7: "b", 8: "a"}),  # on a CPU, then unknown
        ActivitySample(2.5, {7: "a", 9: "a"}),  # outside both windows
        ActivitySample(2.8, {7: "a", 9: "c"}),  # unknown, then on a CPU until it leaves that
    ]
    windows = [Window(1.0, 2.0), Window(2.7, 3.0, 0.5)]
    assert scheduled_statements(events, windows, samples, 4) == (
        ScheduledStatement(statement="a", on_cpu=1.0, ready=0.0),
        ScheduledStatement(statement="b", on_cpu=2.0, ready=2.0),
        ScheduledStatement(statement="c", on_cpu=0.5, ready=0.0),
    )
    assert scheduled_statements(events, windows, [], 4) is None


def test_windows_weigh_the_time_since_the_one_before() -> None:
    found = weighted([(2.5, 3.0), (3.5, 4.0), (6.0, 7.0)], 1.0)
    assert [window.weight for window in found] == [1.0, 0.5, 1.5]
    assert weighted([], 1.0) == ()


def test_who_wakes() -> None:
    waker = wakers({4711})
    assert waker(4711) == "own"
    assert waker(0) == "kernel"
    assert waker(os.getpid()) == waker(threading.get_native_id()) == "other"
    name = Path("/proc/2/comm")  # another process, or none, in a container
    if name.exists() and name.read_text() == "kthreadd\n":
        assert waker(2) == "kernel"
        names = {each: each.read_text() for each in Path("/proc").glob("[0-9]*/comm")}
        hands_out = next(each for each, name in names.items() if name == "ksoftirqd/0\n")
        assert waker(int(hands_out.parent.name)) == "other"


def test_a_few_lost_events_are_not_worth_a_word() -> None:
    waits = Waits()
    waits.sums["S", "own"] = Sum(1000, 0.1)
    assert missing([waits], 10) == []
    (lost,) = missing([waits], 11)
    assert lost.message.startswith("11 ")
    assert missing([], 1)
