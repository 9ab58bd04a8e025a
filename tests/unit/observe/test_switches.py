"""The section that tells how long threads were blocked."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from millrace.observe.switch_events import Sum, Waits
from millrace.observe.switches import filters, missing, section, wakers


def test_the_section() -> None:
    waits = Waits(cut_s=0.004)
    waits.sums["S", "other"] = Sum(2, 0.001)
    waits.sums["S", "own"] = Sum(20, 0.003)
    told = section({7: waits, 5: Waits()}, [(1.0, 1.25), (2.0, 2.5)])
    assert told == {
        "windows": 2,
        "seconds": 0.75,
        "threads": [
            {"tid": 5, "cut_s": 0.0, "waits": []},
            {
                "tid": 7,
                "cut_s": 0.004,
                "waits": [
                    {"state": "S", "woken_by": "own", "count": 20, "seconds": 0.003},
                    {"state": "S", "woken_by": "other", "count": 2, "seconds": 0.001},
                ],
            },
        ],
    }


def test_only_what_is_about_these_threads_is_let_through() -> None:
    assert filters({9, 7}) == {
        "sched_switch": "prev_pid==7||prev_pid==9",
        "sched_waking": "pid==7||pid==9",
        "sched_wakeup": "pid==7||pid==9",
    }


def test_who_wakes() -> None:
    waker = wakers({4711})
    assert waker(4711) == "own"
    assert waker(0) == "kernel"
    assert waker(os.getpid()) == waker(threading.get_native_id()) == "other"
    name = Path("/proc/2/comm")  # another process, or none, in a container
    if name.exists() and name.read_text() == "kthreadd\n":
        assert waker(2) == "kernel"


def test_a_few_lost_events_are_not_worth_a_word() -> None:
    waits = Waits()
    waits.sums["S", "own"] = Sum(1000, 0.1)
    assert missing([waits], 10) == []
    assert missing([waits], 11) == [
        {"what": "11 switches of threads, which were lost", "remedy": None}
    ]
    assert missing([], 1)
