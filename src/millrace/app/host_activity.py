"""Observe the current activity of a host: who else uses it, and what this process may do on it."""

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace import databases
from millrace.errors import HostError, Unavailable
from millrace.host import parsers as text
from millrace.host import perf, procfs, tracing, valgrind
from millrace.host.files import number, read, read_file
from millrace.servers.instances import confinement

_DATABASE_PROGRAMS = databases.programs() | frozenset(
    ("postgres", "mongod", "redis-server", "oracle", "sqlservr")
)
_NOTICEABLE_SHARE = 0.02
_PROGRAM_BYTES = 1 << 16  # in these, a command line names the program and that of a loader


@dataclass(frozen=True)
class Process:
    """A process and its share of one CPU, from 0 (may exceed 1 with several threads)."""

    pid: int
    name: str
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


@dataclass(frozen=True)
class Activity:
    """The observed activity of a host.

    Shares are of all CPUs' time, from 0 to 1; None where the host does not report them.

    ``busiest`` are other processes that used a CPU noticeably, ``databases`` other database
    servers. ``throttled`` counts how often heat slowed a CPU down since the host started.
    ``perf_program`` is the path of a perf that runs on this kernel, ``valgrind`` the version of a
    valgrind that runs. ``no_tracing`` says why the kernel's scheduler cannot be traced; None where
    it can be. ``unconfined`` says why a server cannot be confined to its own directories: empty
    where it can be. ``open_files`` and ``processes`` are limits, None when there is none.
    """

    busy_share: float | None
    steal_share: float | None
    busiest: tuple[Process, ...]
    databases: tuple[Process, ...]
    on_battery: bool | None
    throttled: int | None
    perf_paranoid: int | None
    perf_program: str | None
    valgrind: str | None
    no_tracing: Unavailable | None
    is_root: bool
    unconfined: tuple[str, ...]
    open_files: int | None
    processes: int | None


def observe(root: Path, sample_s: float) -> Activity:
    """Observe the host for ``sample_s`` seconds."""
    times, ticks = text.cpu_times(read(root, "proc/stat")), _ticks(root)
    started = time.monotonic()
    time.sleep(sample_s)
    elapsed_s = time.monotonic() - started
    busy, steal = shares(times, text.cpu_times(read(root, "proc/stat")))
    return Activity(
        busy_share=busy,
        steal_share=steal,
        busiest=busiest(ticks, _ticks(root), elapsed_s),
        databases=_databases(root),
        on_battery=_on_battery(root),
        throttled=_throttled(root),
        perf_paranoid=number(root, "proc/sys/kernel/perf_event_paranoid"),
        # The perf of some systems fits only another kernel.
        perf_program=_unless_unusable(lambda: perf.find().program),
        valgrind=_unless_unusable(lambda: valgrind.find().version),
        no_tracing=_no_tracing(),
        is_root=os.geteuid() == 0,
        unconfined=tuple(confinement.lacking()),
        open_files=_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        processes=_limit(resource.getrlimit(resource.RLIMIT_NPROC)[0]),
    )


def shares(
    before: text.CpuTimes | None, after: text.CpuTimes | None
) -> tuple[float | None, float | None]:
    """Return the busy and the stolen share of all CPUs' time between two readings."""
    if before is None or after is None:
        return None, None
    busy, steal = after.busy - before.busy, after.steal - before.steal
    total = busy + steal + after.idle - before.idle
    return (busy / total, steal / total) if total > 0 else (None, None)


def busiest(
    before: Mapping[int, tuple[str, int]], after: Mapping[int, tuple[str, int]], elapsed_s: float
) -> tuple[Process, ...]:
    """Return the (at most three) processes that used most CPU between two readings of ticks."""
    per_s = os.sysconf("SC_CLK_TCK")
    found = [
        Process(pid, name, (ticks - before[pid][1]) / per_s / elapsed_s)
        for pid, (name, ticks) in after.items()
        if pid in before and elapsed_s > 0
    ]
    noticeable = [process for process in found if process.share >= _NOTICEABLE_SHARE]
    return tuple(sorted(noticeable, key=lambda process: -process.share)[:3])


def _ticks(root: Path) -> dict[int, tuple[str, int]]:
    """Return name and CPU ticks of every process but this one."""
    found = {}
    for directory in (root / "proc").glob("[0-9]*"):
        raw = procfs.read_or_none(directory / "stat")
        if raw is not None and directory.name != str(os.getpid()):
            stat = procfs.stat(raw)
            found[int(directory.name)] = stat.name, stat.user_ticks + stat.system_ticks
    return found


def _databases(root: Path) -> tuple[Process, ...]:
    """Return running database servers, by the program's name; a parent stands for its children."""
    found: dict[int, tuple[str, int]] = {}
    for directory in (root / "proc").glob("[0-9]*"):
        line = procfs.read_or_none(directory / "cmdline", _PROGRAM_BYTES) or b""
        arguments = line.decode(errors="replace").strip("\0 \n\t").split("\0")
        names = [argument.rpartition("/")[2].partition(":")[0] for argument in arguments]
        name = names[0]
        if name.startswith("ld-linux"):  # the program is an argument of its own loader
            name = next((each for each in names if each in _DATABASE_PROGRAMS), name)
        if name in _DATABASE_PROGRAMS:
            raw = procfs.read_or_none(directory / "stat")
            found[int(directory.name)] = name, 0 if raw is None else procfs.stat(raw).parent
    return tuple(
        Process(pid, name) for pid, (name, parent) in sorted(found.items()) if parent not in found
    )


def _on_battery(root: Path) -> bool | None:
    """Return whether a battery powers this host; None where it has none."""
    supplies = list((root / "sys/class/power_supply").glob("*"))
    kinds = {read_file(supply / "type") for supply in supplies}
    if "Battery" not in kinds:
        return None
    return not any(
        read_file(supply / "type") != "Battery" and read_file(supply / "online") == "1"
        for supply in supplies
    )


def _throttled(root: Path) -> int | None:
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/*_throttle_count")
    counts = [number(file.parent, file.name) or 0 for file in files]
    return max(counts) if counts else None


def _unless_unusable(find: Callable[[], str]) -> str | None:
    """Return what is found of a program that runs; None where it does not."""
    try:
        return find()
    except (HostError, Unavailable):
        return None


def _no_tracing() -> Unavailable | None:
    """Return the reason that the kernel's scheduler cannot be traced; None where it can."""
    try:
        tracing.check()
    except Unavailable as why:
        return why
    return None


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
