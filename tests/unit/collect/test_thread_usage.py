"""Test the activity of threads between two readings of their files."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect import thread_usage
from millrace.collect.collectors import as_json
from millrace.collect.thread_usage import RawThread, Reading
from millrace.collect.threads.thread_reader import ThreadSample
from millrace.host import procfs
from tests.support import host_texts

TICKS = os.sysconf("SC_CLK_TCK")


def stat(
    name: str = "mysqld", *, ticks: tuple[int, int] = (0, 0), faults: int = 0, started: int = 7
) -> bytes:
    fields = [1, 1, 1, 0, -1, 0, faults, 0, 1, 0, *ticks, 0, 0, 20, 0, 1, 0, started, *[0] * 30]
    return f"1 ({name}) S {' '.join(map(str, fields))}\n".encode()


def io(calls: int) -> bytes:
    return (
        b"rchar: %d\nwchar: 0\nsyscr: %d\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n"
        b"cancelled_write_bytes: 0\n"
    ) % (100 * calls, calls)


def thread(
    ran_ns: int = 0,
    *,
    waited_ns: int = 0,
    ticks: tuple[int, int] = (0, 0),
    switches: tuple[int, int] = (0, 0),
    calls: int = 0,
    started: int = 7,
) -> RawThread:
    status = b"voluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n" % switches
    raw = stat(ticks=ticks, started=started)
    return RawThread(raw, b"%d %d 1\n" % (ran_ns, waited_ns), status, io(calls))


def reading(clock_ns: int, found: dict[int, RawThread], took_s: float = 0.0) -> Reading:
    return Reading(stat(ticks=(0, 0)), clock_ns, io(1_000), found, took_s)


def section(before: Reading, after: Reading, kinds: dict[int, str]) -> Any:
    return as_json(thread_usage.usage(before, after, kinds))


def test_a_thread_that_was_there_all_the_time() -> None:
    before = thread(1_000_000_000, waited_ns=5_000_000, ticks=(80, 20), switches=(7, 3), calls=5)
    after = thread(3_000_000_000, waited_ns=9_000_000, ticks=(230, 70), switches=(17, 4), calls=25)
    found = section(reading(0, {4: before}), reading(2_000_000_000, {4: after}), {4: "connection"})
    [only] = found["threads"]
    named = {only.pop(name): name for name in ("tid", "name", "kind")}
    assert named == {4: "tid", "mysqld": "name", "connection": "kind"}
    assert only == pytest.approx(
        {
            "cpu_s": 2.0,
            "runnable_s": 0.004,
            "user_s": 1.5,
            "system_s": 0.5,
            "voluntary_switches": 10,
            "involuntary_switches": 1,
            "minor_faults": 0,
            "major_faults": 0,
            "read_calls": 20,
            "write_calls": 0,
            "read_chars": 2_000,
            "written_chars": 0,
            "read_bytes": 0,
            "write_bytes": 0,
        }
    )
    process = found["process"]
    assert process["cpu_s"] == 2.0
    assert (process["runnable_s"], process["voluntary_switches"]) == (0.004, 10)


def test_a_thread_that_began_counts_from_zero() -> None:
    found = section(
        reading(0, {4: thread(100), 5: thread(900, started=7)}),
        reading(0, {4: thread(100), 5: thread(600, started=8), 6: thread(300, switches=(2, 0))}),
        {},
    )
    cpu_ns = {each["tid"]: round(each["cpu_s"] * 1e9) for each in found["threads"]}
    # Thread 5 is another one, and the first of that number has ended.
    assert cpu_ns == {4: 0, 5: 600, 6: 300, 0: 0}
    assert found["threads"][-1]["kind"] == "ended"


def test_threads_that_ended_are_what_the_process_did_beyond_the_others() -> None:
    found = section(
        reading(10_000_000_000, {4: thread(1_000_000_000), 5: thread(2_000_000_000, calls=9)}),
        reading(14_000_000_000, {4: thread(2_500_000_000)}),
        {4: "connection"},
    )
    assert [each["kind"] for each in found["threads"]] == ["connection", "ended"]
    assert found["threads"][1]["cpu_s"] == pytest.approx(2.5)
    assert found["threads"][1]["voluntary_switches"] is None


def test_process_figures_are_unknown_after_a_thread_ended() -> None:
    kept, ended = thread(switches=(3, 4), waited_ns=5), thread(switches=(70, 80))
    after = reading(0, {4: kept})
    names = ("runnable_s", "voluntary_switches", "involuntary_switches")
    process = section(reading(0, {4: thread()}), after, {})["process"]
    assert [process[name] for name in names] == [5e-9, 3, 4]
    process = section(reading(0, {4: thread(), 5: ended}), after, {})["process"]
    assert [process[name] for name in names] == [None, None, None]
    assert process["read_calls"] == 0
    (lack,) = thread_usage.missing(after, some_ended=True)
    assert "context switches" in lack.message


def test_a_difference_that_reading_explains_is_no_thread() -> None:
    before, after = {4: thread(0)}, {4: thread(1_000_000)}
    found = section(reading(0, before), reading(3_000_000, after, took_s=0.002), {})
    assert [each["tid"] for each in found["threads"]] == [4]
    found = section(reading(0, before), reading(3_000_000_000, after, took_s=0.002), {})
    assert [each["kind"] for each in found["threads"]] == ["background", "ended"]


def test_what_may_not_be_read_is_none_and_missing() -> None:
    bare = RawThread(stat(ticks=(100, 100)), None, None, None)
    more = RawThread(stat(ticks=(150, 250)), b"0 0 0\n", None, None)
    after = Reading(stat(), 2_000_000_000, None, {4: more}, 0.0)
    found = section(Reading(stat(), 0, None, {4: bare}, 0.0), after, {})
    [only] = found["threads"]
    # Only ticks are available.
    assert only["cpu_s"] == pytest.approx(200 / TICKS)
    assert (only["runnable_s"], only["voluntary_switches"], only["read_calls"]) == (None,) * 3
    assert found["process"]["runnable_s"] is None
    assert found["process"]["read_bytes"] is None
    what = " ".join(each.message for each in thread_usage.missing(after, some_ended=False))
    assert "/proc/PID/io" in what
    assert "schedstat" in what
    assert not list(thread_usage.missing(reading(0, {4: thread(5)}), some_ended=False))


def test_the_busiest_come_first() -> None:
    before = {tid: thread(0) for tid in (4, 5, 6)}
    after = {4: thread(10), 5: thread(30), 6: thread(20)}
    found = section(reading(0, before), reading(60, after), {})
    assert [each["tid"] for each in found["threads"]] == [5, 6, 4]


@given(
    st.dictionaries(st.integers(1, 9), st.integers(0, 10**12), max_size=5),
    st.dictionaries(st.integers(1, 9), st.integers(0, 10**12), max_size=5),
    st.integers(0, 10**13),
)
def test_threads_use_no_more_than_the_process(
    began: dict[int, int], more: dict[int, int], clock_ns: int
) -> None:
    before = {tid: thread(ns) for tid, ns in began.items()}
    after = {tid: thread(began.get(tid, 0) + ns) for tid, ns in more.items()}
    found = section(reading(0, before), reading(clock_ns, after), {})
    total_s = sum(each["cpu_s"] for each in found["threads"])
    assert all(each["cpu_s"] >= 0 for each in found["threads"])
    assert total_s == pytest.approx(max(clock_ns / 1e9, sum(more.values()) / 1e9))


def test_real_threads_are_read() -> None:
    stop = threading.Event()
    spinning = threading.Thread(target=_spin, args=(stop,))
    samples = _samples()
    before = thread_usage.read(os.getpid(), samples, time.monotonic())
    spinning.start()
    time.sleep(0.3)
    after = thread_usage.read(os.getpid(), _samples(), time.monotonic())
    stop.set()
    spinning.join()
    found = section(before, after, {})
    spun = next(each for each in found["threads"] if each["tid"] == spinning.native_id)
    assert spun["cpu_s"] > 0
    assert found["process"]["cpu_s"] >= spun["cpu_s"] * 0.9
    assert not list(thread_usage.missing(after, some_ended=False))


def _spin(stop: threading.Event) -> None:
    while not stop.is_set():
        pass


def _samples() -> dict[int, ThreadSample]:
    tids = [int(path.name) for path in Path("/proc/self/task").iterdir()]
    return {
        tid: ThreadSample(
            procfs.read(f"/proc/self/task/{tid}/stat"),
            procfs.read(f"/proc/self/task/{tid}/schedstat"),
            None,
            None,
        )
        for tid in tids
    }


def test_files_of_a_real_server() -> None:
    raw = RawThread(host_texts.CHECKPOINTER_STAT, b"4062689 35520640 3\n", host_texts.STATUS, io(0))
    found = section(reading(0, {}), reading(0, {31159: raw}), {31159: "checkpoint"})
    first = found["threads"][0]
    assert (first["name"], first["kind"]) == ("ib_log_checkpt", "checkpoint")
    assert first["runnable_s"] == pytest.approx(0.03552064)
    assert (first["voluntary_switches"], first["involuntary_switches"]) == (50, 110)
