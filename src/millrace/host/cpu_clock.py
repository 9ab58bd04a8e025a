"""The CPU time of a process, exact to the nanosecond."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from millrace.host import procfs

_ALL_THREADS = 2  # CPUCLOCK_SCHED: what a process ran, counted in nanoseconds


@dataclass(frozen=True)
class CpuTime:
    """CPU time since a thread began, or a process, with that of its threads that have ended: in
    ticks of the clock that user and system time are told in, and in nanoseconds altogether."""

    user_s: float
    system_s: float
    total_ns: int


def cpu_time(pid: int) -> CpuTime:
    """The CPU time of a process until now. Raises OSError when it is gone."""
    stat = procfs.stat(procfs.read(f"/proc/{pid}/stat"))
    return with_ticks(clock_ns(pid), stat)


def clock_ns(pid: int) -> int:
    """The nanoseconds that a process ran. Raises OSError when it is gone."""
    # The number that clock_getcpuclockid(3) gives, which Python does not have.
    return time.clock_gettime_ns((~pid << 3) | _ALL_THREADS)


def with_ticks(total_ns: int, stat: procfs.Stat) -> CpuTime:
    """What ran for ``total_ns``, with the ticks of its ``stat``."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return CpuTime(stat.user_ticks * tick_s, stat.system_ticks * tick_s, total_ns)


def cpu_between(before: CpuTime, after: CpuTime) -> tuple[float, float]:
    """User and system seconds between two readings of one process: nanoseconds say how many, ticks
    (10 ms) of which kind; less than a tick is user time."""
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    ticked_s = user_s + system_s
    total_s = (after.total_ns - before.total_ns) / 1e9
    if not ticked_s:
        return total_s, 0.0
    return total_s * user_s / ticked_s, total_s * system_s / ticked_s
