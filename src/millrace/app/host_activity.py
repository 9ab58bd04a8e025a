"""Observe a host's current activity, and the permissions of this process on it."""

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
_PROGRAM_BYTES = 1 << 16  # of a command line, enough for the program and its loader


@dataclass(frozen=True)
class Process:
    """A process; ``share`` is its CPU usage in CPUs, more than 1 if it used several."""

    pid: int
    name: str
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


@dataclass(frozen=True)
class Activity:
    """The observed activity of a host.

    ``busy_share``, ``steal_share``: fractions of the CPU time of all CPUs, None if unknown.
    ``busiest``: other processes with noticeable CPU usage. ``databases``: other database servers.
    ``on_battery``: None without a battery. ``throttled``: how often heat slowed down a CPU since
    the host started. ``perf_program``: path of a perf that works with this kernel. ``valgrind``:
    version of a valgrind that works. ``no_tracing``: why the kernel's scheduler cannot be traced,
    None if it can. ``unconfined``: why servers cannot be confined to their directories, empty if
    they can. ``open_files``, ``processes``: limits, None for unlimited.
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
        # Some systems have a perf for another kernel.
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
    """Return the fractions of CPU time that were busy and stolen, over all CPUs.

    Both are between two readings, and None if unknown.
    """
    if before is None or after is None:
        return None, None
    busy, steal = after.busy - before.busy, after.steal - before.steal
    total = busy + steal + after.idle - before.idle
    return (busy / total, steal / total) if total > 0 else (None, None)


def busiest(
    before: Mapping[int, tuple[str, int]], after: Mapping[int, tuple[str, int]], elapsed_s: float
) -> tuple[Process, ...]:
    """Return up to three processes that used most CPU time between two readings, in ticks."""
    per_s = os.sysconf("SC_CLK_TCK")
    found = [
        Process(pid, name, (ticks - before[pid][1]) / per_s / elapsed_s)
        for pid, (name, ticks) in after.items()
        if pid in before and elapsed_s > 0
    ]
    noticeable = [process for process in found if process.share >= _NOTICEABLE_SHARE]
    return tuple(sorted(noticeable, key=lambda process: -process.share)[:3])


def _ticks(root: Path) -> dict[int, tuple[str, int]]:
    """Return the name and the CPU ticks of every other process, by process id."""
    found = {}
    for directory in (root / "proc").glob("[0-9]*"):
        raw = procfs.read_or_none(directory / "stat")
        if raw is not None and directory.name != str(os.getpid()):
            stat = procfs.stat(raw)
            found[int(directory.name)] = stat.name, stat.user_ticks + stat.system_ticks
    return found


def _databases(root: Path) -> tuple[Process, ...]:
    """Return the running database servers, without children of database servers."""
    found: dict[int, tuple[str, int]] = {}
    for directory in (root / "proc").glob("[0-9]*"):
        line = procfs.read_or_none(directory / "cmdline", _PROGRAM_BYTES) or b""
        arguments = line.decode(errors="replace").strip("\0 \n\t").split("\0")
        names = [argument.rpartition("/")[2].partition(":")[0] for argument in arguments]
        name = names[0]
        if name.startswith("ld-linux"):  # the program is an argument of the loader
            name = next((each for each in names if each in _DATABASE_PROGRAMS), name)
        if name in _DATABASE_PROGRAMS:
            raw = procfs.read_or_none(directory / "stat")
            found[int(directory.name)] = name, 0 if raw is None else procfs.stat(raw).parent
    return tuple(
        Process(pid, name) for pid, (name, parent) in sorted(found.items()) if parent not in found
    )


def _on_battery(root: Path) -> bool | None:
    """Return whether this host runs on battery; None if it has no battery."""
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
    """Return the result of ``find``; None if the program cannot be used."""
    try:
        return find()
    except (HostError, Unavailable):
        return None


def _no_tracing() -> Unavailable | None:
    """Return the reason why the kernel's scheduler cannot be traced; None if it can."""
    try:
        tracing.check()
    except Unavailable as why:
        return why
    return None


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
