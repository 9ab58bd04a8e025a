"""Test the section that says how long threads were blocked."""

import os
import threading
from pathlib import Path

from millrace.collect.collectors import as_json
from millrace.collect.sched_waits import (
    ActivitySample,
    blocked,
    filters,
    missing,
    scheduled_statements,
    wakers,
    weighted,
)
from millrace.collect.threads.sched_events import (
    Event,
    Sum,
    SwitchIn,
    SwitchOut,
    Waits,
    Wakeup,
    Window,
)
from millrace.model.sampled_threads import ScheduledStatement


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
