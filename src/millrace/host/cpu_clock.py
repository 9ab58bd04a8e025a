"""Measure the CPU time of a process in nanoseconds."""

import os
import time
from dataclasses import dataclass

from millrace.host import procfs

_ALL_THREADS = 2  # CPUCLOCK_SCHED: CPU time of all threads of a process, in ns


@dataclass(frozen=True)
class CpuTime:
    """The CPU time of a thread since its start, or of a process including ended threads."""

    user_s: float  # from the kernel's clock ticks
    system_s: float
    total_ns: int  # exact


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of a process until now. Raise OSError if the process has ended."""
    stat = procfs.stat(procfs.read(f"/proc/{pid}/stat"))
    return with_ticks(clock_ns(pid), stat)


def clock_ns(pid: int) -> int:
    """Return the CPU time of a process in ns. Raise OSError if the process has ended."""
    # The clock id that clock_getcpuclockid(3) returns; Python lacks that function.
    return time.clock_gettime_ns((~pid << 3) | _ALL_THREADS)


def with_ticks(total_ns: int, stat: procfs.Stat) -> CpuTime:
    """Return the CPU time with total ``total_ns``, and the user and system ticks of ``stat``."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return CpuTime(stat.user_ticks * tick_s, stat.system_ticks * tick_s, total_ns)


def cpu_between(before: CpuTime, after: CpuTime) -> tuple[float, float]:
    """Return user and system CPU seconds between two readings: the exact total, split by ticks."""
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    ticked_s = user_s + system_s
    total_s = (after.total_ns - before.total_ns) / 1e9
    if not ticked_s:
        return total_s, 0.0  # less than a tick (10 ms) counts as user time
    return total_s * user_s / ticked_s, total_s * system_s / ticked_s
