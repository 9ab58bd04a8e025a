"""Test CPU time between two readings, of real processes."""

import os
import subprocess
import sys
import threading

import pytest

from millrace.host.cpu_clock import CpuTime, cpu_between, cpu_time


def spin(seconds: float) -> None:
    """Use this much CPU time in this thread."""
    end_s = seconds + thread_s()
    while thread_s() < end_s:
        pass


def thread_s() -> float:
    return os.times().user + os.times().system


def test_this_process_uses_what_it_uses() -> None:
    before, began_s = cpu_time(os.getpid()), thread_s()
    spin(0.3)
    after, ended_s = cpu_time(os.getpid()), thread_s()
    user_s, system_s = cpu_between(before, after)
    assert user_s + system_s == pytest.approx(ended_s - began_s, abs=0.1)
    assert user_s >= 0
    assert system_s >= 0


def test_threads_that_lived_only_in_between_count() -> None:
    before = cpu_time(os.getpid())
    thread = threading.Thread(target=spin, args=(0.2,))
    thread.start()
    thread.join()
    after = cpu_time(os.getpid())
    assert (after.total_ns - before.total_ns) / 1e9 >= 0.1
    assert sum(cpu_between(before, after)) >= 0.1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # 12 ms in ticks of 10 ms: the nanoseconds give the amount, the ticks the kind.
        (CpuTime(1.00, 2.00, 0), CpuTime(1.03, 2.01, 48_000_000), (0.036, 0.012)),
        (CpuTime(0.0, 0.0, 5), CpuTime(0.3, 0.1, 200_000_005), (0.15, 0.05)),
        # Less than a tick.
        (CpuTime(0.0, 0.0, 0), CpuTime(0.0, 0.0, 900), (0.000_000_9, 0.0)),
    ],
)
def test_ticks_share_what_nanoseconds_count(
    before: CpuTime, after: CpuTime, expected: tuple[float, float]
) -> None:
    assert cpu_between(before, after) == pytest.approx(expected)


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(OSError, match=str(process.pid)):
        cpu_time(process.pid)
