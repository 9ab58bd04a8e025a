"""Collect the usage of each server thread: CPU time, waits for a CPU, switches, faults, I/O.

Files of /proc are read at both marks and parsed afterwards. A thread that began in between counts
from zero. One thread of the kind ``ended`` has the process's usage beyond that of living threads;
its switches and waits for a CPU, and so the process's, are unknown.

Cost: five small files for each thread and one query at each mark, some milliseconds.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.collect.threads.thread_reader import ThreadSample
from millrace.collect.threads.thread_watch import NEEDS_PTRACE, ThreadWatch, require_process
from millrace.databases.monitoring import BACKGROUND
from millrace.errors import Unavailable
from millrace.host import cpu_clock, procfs
from millrace.host.cpu_clock import CpuTime, cpu_between
from millrace.model.observations import Threads, ThreadUsage, Usage

NAME = "threads"

_ENDED_TID = 0
_ENDED_NAME = "ended"

_COUNTED = (
    "voluntary_switches", "involuntary_switches", "minor_faults", "major_faults", *procfs.IO,
)  # fmt: skip
# Figures that the kernel reports for existing threads, but not for a process.
_OF_THREADS = ("runnable_s", "voluntary_switches", "involuntary_switches")


Figure = float | int | None


@dataclass(frozen=True)
class RawThread:
    """A thread's files at a mark; None for a file that cannot be read."""

    stat: bytes
    schedstat: bytes | None
    status: bytes | None
    io: bytes | None


@dataclass(frozen=True)
class Reading:
    """The server's files at a mark; reading them took ``took_s``."""

    stat: bytes
    clock_ns: int
    io: bytes | None
    threads: Mapping[int, RawThread]
    took_s: float


@dataclass(frozen=True)
class Counts:
    """The usage of a thread or process since it began; ``counted`` are the figures of _COUNTED."""

    cpu: CpuTime
    runnable_ns: int | None
    counted: Mapping[str, int | None]


_NOTHING = Counts(CpuTime(0.0, 0.0, 0), 0, dict.fromkeys(_COUNTED, 0))


def collector(target: Target) -> MarkCollector[Reading]:
    """Create the collector. Raise Unavailable where the server's process is not visible."""
    pid = require_process(target)
    watch = ThreadWatch(target)

    def take() -> Reading:
        began_s = time.monotonic()
        return read(pid, watch.sample(), began_s)

    def compare(before: Reading, after: Reading) -> CollectorResult:
        kinds = watch.kinds()
        found = usage(before, after, kinds)
        some_ended = any(thread.tid == _ENDED_TID for thread in found.threads or ())
        return CollectorResult(
            {NAME: found}, [*missing(after, some_ended=some_ended), *watch.missing(kinds)]
        )

    return MarkCollector(take, compare, watch.close)


def read(pid: int, samples: Mapping[int, ThreadSample], began_s: float) -> Reading:
    """Read a process and its sampled threads; raise OSError where the process is gone."""
    tasks = f"/proc/{pid}/task"
    threads = {
        tid: RawThread(
            sample.stat,
            sample.schedstat,
            procfs.read_or_none(f"{tasks}/{tid}/status"),
            procfs.read_or_none(f"{tasks}/{tid}/io"),
        )
        for tid, sample in samples.items()
    }
    return Reading(
        stat=procfs.read(f"/proc/{pid}/stat"),
        clock_ns=cpu_clock.clock_ns(pid),
        io=procfs.read_or_none(f"/proc/{pid}/io"),
        threads=threads,
        took_s=time.monotonic() - began_s,
    )


def usage(before: Reading, after: Reading, kinds: Mapping[int, str]) -> Threads:
    """Return the usage of the process and its threads between two readings."""
    threads = []
    for tid, raw in after.threads.items():
        earlier = before.threads.get(tid)
        if earlier is not None and _started(earlier) != _started(raw):
            earlier = None  # another thread with the same number
        figures = _figures(_NOTHING if earlier is None else _of_thread(earlier), _of_thread(raw))
        name, kind = procfs.stat(raw.stat).name, kinds.get(tid, BACKGROUND)
        threads.append(ThreadUsage(**figures, tid=tid, name=name, kind=kind))
    threads.sort(key=lambda thread: (-(thread.cpu_s or 0.0), thread.tid))
    total = _figures(_of_process(before), _of_process(after))
    ended = _ended(before, after, total, threads)
    if not ended:
        total |= {name: _sum(threads, name) for name in _OF_THREADS}
    return Threads(process=Usage(**total), threads=(*threads, *ended))


def missing(reading: Reading, *, some_ended: bool) -> Iterator[Unavailable]:
    """Yield the parts that could not be read."""
    threads = reading.threads.values()
    if reading.io is None and all(thread.io is None for thread in threads):
        yield Unavailable(
            "reads and writes of the server and its threads (/proc/PID/io)", hint=NEEDS_PTRACE
        )
    if not any(map(_has_schedstat, threads)):
        yield Unavailable(
            "how long threads waited for a CPU (/proc/PID/task/TID/schedstat)",
            hint="use a kernel with CONFIG_SCHED_INFO",
        )
    if some_ended:
        yield Unavailable("context switches of the server as a whole: threads ended")


def _sum(threads: Sequence[ThreadUsage], name: str) -> float | int | None:
    known = [value for thread in threads if (value := getattr(thread, name)) is not None]
    return sum(known) if known else None


def _ended(
    before: Reading, after: Reading, process: Mapping[str, Figure], threads: Sequence[ThreadUsage]
) -> list[ThreadUsage]:
    """Return the usage of ended threads as at most one thread.

    Without an ended thread, a difference up to the time of the readings themselves is none.
    """
    beyond = {
        name: None if total is None else max(0, total - (_sum(threads, name) or 0))
        for name, total in process.items()
    }
    blurred_s = (before.took_s + after.took_s) * (os.cpu_count() or 1)
    some_ended = any(
        tid not in after.threads or _started(after.threads[tid]) != _started(raw)
        for tid, raw in before.threads.items()
    )
    if not some_ended and (beyond["cpu_s"] or 0.0) <= blurred_s:
        return []
    return [ThreadUsage(**beyond, tid=_ENDED_TID, name=_ENDED_NAME, kind="ended")]


def _figures(before: Counts, after: Counts) -> dict[str, Figure]:
    user_s, system_s = cpu_between(before.cpu, after.cpu)
    waited_ns = after.runnable_ns
    return {
        "cpu_s": (after.cpu.total_ns - before.cpu.total_ns) / 1e9,
        "runnable_s": None if waited_ns is None else (waited_ns - (before.runnable_ns or 0)) / 1e9,
        "user_s": user_s,
        "system_s": system_s,
        **{
            name: None if value is None else value - (before.counted[name] or 0)
            for name, value in after.counted.items()
        },
    }


def _of_thread(raw: RawThread) -> Counts:
    stat = procfs.stat(raw.stat)
    ran_ns = waited_ns = None
    if raw.schedstat is not None and _has_schedstat(raw):
        ran_ns, waited_ns = procfs.schedstat(raw.schedstat)
    return Counts(
        cpu=cpu_clock.with_ticks(_ticked_ns(stat) if ran_ns is None else ran_ns, stat),
        runnable_ns=waited_ns,
        counted=_counted(stat, raw.status, raw.io),
    )


def _of_process(reading: Reading) -> Counts:
    stat = procfs.stat(reading.stat)
    return Counts(
        cpu=cpu_clock.with_ticks(reading.clock_ns, stat),
        runnable_ns=None,
        counted=_counted(stat, None, reading.io),
    )


def _counted(stat: procfs.Stat, status: bytes | None, io: bytes | None) -> Mapping[str, int | None]:
    voluntary, involuntary = (None, None) if status is None else procfs.switches(status)
    return {
        "voluntary_switches": voluntary,
        "involuntary_switches": involuntary,
        "minor_faults": stat.minor_faults,
        "major_faults": stat.major_faults,
        **(dict.fromkeys(procfs.IO) if io is None else procfs.io(io)),
    }


def _has_schedstat(raw: RawThread) -> bool:
    """Return whether the kernel counts the running time of a thread; where not, it may report 0."""
    if raw.schedstat is None:
        return False
    return procfs.schedstat(raw.schedstat)[0] > 0 or _ticked_ns(procfs.stat(raw.stat)) == 0


def _ticked_ns(stat: procfs.Stat) -> int:
    return (stat.user_ticks + stat.system_ticks) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _started(raw: RawThread) -> int:
    return procfs.stat(raw.stat).started_ticks
