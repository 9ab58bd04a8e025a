"""The CPU time of a process, exact to the nanosecond."""

import os
import time
from dataclasses import dataclass

from millrace.host import procfs

_ALL_THREADS = 2  # CPUCLOCK_SCHED: the nanoseconds that all threads of a process ran


@dataclass(frozen=True)
class CpuTime:
    """The CPU time of a thread, or of a process with its ended threads, since it began."""

    user_s: float  # from the kernel's clock ticks
    system_s: float
    total_ns: int  # exact


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of a process until now. Raise OSError where the process is gone."""
    stat = procfs.stat(procfs.read(f"/proc/{pid}/stat"))
    return with_ticks(clock_ns(pid), stat)


def clock_ns(pid: int) -> int:
    """Return the nanoseconds that a process ran. Raise OSError where the process is gone."""
    # The clock id that clock_getcpuclockid(3) returns; Python does not offer that function.
    return time.clock_gettime_ns((~pid << 3) | _ALL_THREADS)


def with_ticks(total_ns: int, stat: procfs.Stat) -> CpuTime:
    """Return the CPU time of ``total_ns`` nanoseconds with the ticks of ``stat``."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return CpuTime(stat.user_ticks * tick_s, stat.system_ticks * tick_s, total_ns)


def cpu_between(before: CpuTime, after: CpuTime) -> tuple[float, float]:
    """Return user and system seconds between two readings: ticks divide the exact total."""
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    ticked_s = user_s + system_s
    total_s = (after.total_ns - before.total_ns) / 1e9
    if not ticked_s:
        return total_s, 0.0  # less than a tick (10 ms) counts as user time
    return total_s * user_s / ticked_s, total_s * system_s / ticked_s
