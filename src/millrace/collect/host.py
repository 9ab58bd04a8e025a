"""Collect the activity of the host outside the server, and detect disturbances of the measurement.

Files of /proc and /sys are read at both marks, in some milliseconds. Processes that belong neither
to the server nor to millrace (this process and all below it) count as other; kernel threads do not,
because most of their work is for the server.
"""

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace import databases
from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.errors import Unavailable
from millrace.host import cpu_limits, procfs
from millrace.host import parsers as text
from millrace.host.files import read
from millrace.model import observations

NAME = "host"

# Other guests and other processes disturb above these shares of the host's CPU time.
STEAL_SHARE = 0.01
OTHERS_SHARE = 0.02
# A frequency that differs by more than this share between the marks disturbs.
FREQUENCY_SHARE = 0.05
# A control group that was stopped for more than this share of the time disturbs.
THROTTLED_SHARE = 0.01

_SHOWN_OTHERS = 5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DATABASE_SERVERS = databases.programs()
_PRESSURES = {"cpu": ("some",), "io": ("some", "full"), "memory": ("some", "full")}
_FREQUENCIES = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Reading:
    """The host's files at a mark; None for a file that does not exist.

    ``pressure`` is by resource, ``frequencies_mhz`` by CPU; ``processes`` holds each stat file.
    """

    stat: str | None
    vmstat: str | None
    meminfo: str | None
    group_cpu: str | None
    pressure: Mapping[str, str]
    frequencies_mhz: tuple[float, ...]
    processes: Mapping[int, bytes]


def collector(target: Target, root: Path = Path("/")) -> MarkCollector[Reading]:
    """Create the collector of the host. Raise Unavailable where /proc/stat lists no CPU times."""
    if text.cpu_ticks(read(root, "proc/stat")) is None:
        raise Unavailable("this host does not report the activity of its CPUs (/proc/stat)")

    def compare(before: Reading, after: Reading) -> CollectorResult:
        found = activity(before, after, target, root)
        return CollectorResult({NAME: found}, tuple(missing(after)))

    return MarkCollector(functools.partial(take, root), compare)


def take(root: Path) -> Reading:
    """Read the host's files now."""
    group = root / "sys/fs/cgroup" / text.control_groups(read(root, "proc/self/cgroup")).get("", "")
    pressure = {
        resource: found
        for resource in _PRESSURES
        if (found := read(root, f"proc/pressure/{resource}") or read(group, f"{resource}.pressure"))
    }
    frequencies = (root / _FREQUENCIES).glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    khz = [read(file.parent, file.name) or "" for file in frequencies]
    return Reading(
        stat=read(root, "proc/stat"),
        vmstat=read(root, "proc/vmstat"),
        meminfo=read(root, "proc/meminfo"),
        group_cpu=read(group, "cpu.stat"),
        pressure=pressure,
        frequencies_mhz=tuple(int(value) / 1000 for value in khz if value.isdigit()),
        processes={
            int(name): stat
            for name in os.listdir(root / "proc")  # noqa: PTH208 - quick, at a mark
            if name.isdigit()
            and (stat := procfs.read_or_none(f"{root}/proc/{name}/stat")) is not None
        },
    )


def activity(
    before: Reading, after: Reading, target: Target, root: Path
) -> observations.HostActivity:
    """Return the activity of the host between two readings."""
    found = others(
        _parsed(before.processes),
        _parsed(after.processes),
        own_pid=os.getpid(),
        server_pid=target.pid,
    )
    sizes = text.sizes(after.meminfo)
    return observations.HostActivity(
        cpu=observations.HostCpu(
            **{f"{name}_s": n / _TICKS_PER_S for name, n in _cpu_ticks(before, after).items()}
        ),
        cpus=text.cpu_count(after.stat),
        pressure=_pressure(before, after),
        frequency_mhz=_frequency([*before.frequencies_mhz, *after.frequencies_mhz]),
        memory=observations.Memory(
            available_bytes=sizes.get("MemAvailable"), swap_used_bytes=text.swap_used(sizes)
        ),
        other_cpu_s=sum(other.cpu_s or 0.0 for other in found),
        others=tuple(found[:_SHOWN_OTHERS]),
        disturbed=tuple(disturbed(before, after, found)),
        server_limits=_server_limits(target.pid, root),
    )


def _server_limits(pid: int | None, root: Path) -> observations.ServerLimits:
    if pid is None:
        return observations.ServerLimits(cpus=None, quota_cpus=None)
    return observations.ServerLimits(
        cpus=cpu_limits.allowed_cpus(pid), quota_cpus=cpu_limits.quota_cpus(str(pid), root)
    )


def missing(reading: Reading) -> Iterator[Unavailable]:
    """Yield the parts that the host does not report."""
    if len(reading.pressure) < len(_PRESSURES):
        yield Unavailable(
            "how long work waited for CPUs, disks and memory (/proc/pressure)",
            hint="use a kernel with CONFIG_PSI, and boot it with psi=1",
        )
    if 1 not in reading.processes:
        yield Unavailable(
            "other users' processes", hint="run millrace as root, or mount /proc without hidepid"
        )


def disturbed(
    before: Reading, after: Reading, found: Sequence[observations.OtherProcess]
) -> list[str]:
    """Return the likely disturbances of the measurement, one clause each."""
    clauses: list[str] = []
    ticks = _cpu_ticks(before, after)
    total = sum(ticks.values())
    if total:
        steal = ticks["steal"] / total
        if steal > STEAL_SHARE:
            clauses.append(f"the hypervisor gave {steal:.1%} of the CPU time to others")
        share = sum(other.cpu_s or 0.0 for other in found) * _TICKS_PER_S / total
        if share > OTHERS_SHARE:
            most = f"{found[0].name} (pid {found[0].pid})"
            clauses.append(f"other processes used {share:.1%} of the CPU time, {most} the most")
        throttled_us = _grown(before.group_cpu, after.group_cpu, "throttled_usec")
        window_s = total / max(1, text.cpu_count(after.stat)) / _TICKS_PER_S
        if throttled_us / 1e6 > THROTTLED_SHARE * window_s:
            clauses.append(
                f"the control group's CPU limit stopped it for {throttled_us / 1e6:.1f} s"
            )
    swapped_in = _grown(before.vmstat, after.vmstat, "pswpin")
    if swapped_in > 0:
        clauses.append(f"{swapped_in:,} pages were swapped in")
    was, became = _mean(before.frequencies_mhz), _mean(after.frequencies_mhz)
    if was and became and abs(became / was - 1) > FREQUENCY_SHARE:
        clauses.append(f"the CPUs' frequency went from {was:,.0f} to {became:,.0f} MHz")
    return clauses


def others(
    before: Mapping[int, procfs.Stat],
    after: Mapping[int, procfs.Stat],
    *,
    own_pid: int,
    server_pid: int | None,
) -> list[observations.OtherProcess]:
    """Return the other processes that used CPU time between two readings, the largest first.

    A parent counts an ended child's time; the time before the first reading is subtracted.
    Where the server's process is unknown, every database server counts as the server.
    """
    ours = _descendants({own_pid}, [before, after])
    if server_pid is not None:
        ours |= {server_pid}

    def is_other(pid: int, stat: procfs.Stat) -> bool:
        is_server = server_pid is None and stat.name in _DATABASE_SERVERS
        return pid not in ours and not stat.is_kernel_thread and not is_server

    used: dict[int, int] = {}
    for pid, stat in after.items():
        if is_other(pid, stat):
            known = _same(pid, stat, before)
            used[pid] = _ticks(stat) - (0 if known is None else _ticks(known))
    for pid, stat in before.items():
        if is_other(pid, stat) and _same(pid, stat, after) is None:
            heir = _heir(stat, before, after)
            if heir in used:
                used[heir] -= _ticks(stat)
    found = [
        observations.OtherProcess(name=after[pid].name, pid=pid, cpu_s=ticks / _TICKS_PER_S)
        for pid, ticks in used.items()
        if ticks > 0
    ]
    return sorted(found, key=lambda other: (-(other.cpu_s or 0.0), other.pid or 0))


def _heir(
    ended: procfs.Stat, before: Mapping[int, procfs.Stat], after: Mapping[int, procfs.Stat]
) -> int | None:
    """Return the closest ancestor that has not ended: it counts an ended process's time."""
    pid = ended.parent
    while pid in before:
        if _same(pid, before[pid], after) is not None:
            return pid
        pid = before[pid].parent
    return None


def _same(pid: int, stat: procfs.Stat, readings: Mapping[int, procfs.Stat]) -> procfs.Stat | None:
    found = readings.get(pid)
    return found if found is not None and found.started_ticks == stat.started_ticks else None


def _descendants(above: Collection[int], readings: Iterable[Mapping[int, procfs.Stat]]) -> set[int]:
    found = set(above)
    for reading in readings:
        children: dict[int, list[int]] = {}
        for pid, stat in reading.items():
            children.setdefault(stat.parent, []).append(pid)
        todo = list(found)
        while todo:
            new = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
            found.update(new)
            todo += new
    return found


def _ticks(stat: procfs.Stat) -> int:
    return stat.user_ticks + stat.system_ticks + stat.children_ticks


def _parsed(processes: Mapping[int, bytes]) -> dict[int, procfs.Stat]:
    return {pid: procfs.stat(raw) for pid, raw in processes.items()}


def _cpu_ticks(before: Reading, after: Reading) -> dict[str, int]:
    was, is_now = text.cpu_ticks(before.stat) or {}, text.cpu_ticks(after.stat) or {}
    # The kernel may subtract a tick of idle time later.
    return {name: max(0, ticks - was.get(name, 0)) for name, ticks in is_now.items()}


def _pressure(before: Reading, after: Reading) -> observations.Pressure | None:
    if not after.pressure:
        return None
    found: dict[str, float | None] = {}
    for resource, kinds in _PRESSURES.items():
        was = text.pressure_s(before.pressure.get(resource))
        is_now = text.pressure_s(after.pressure.get(resource))
        for kind in kinds:
            known = kind in was and kind in is_now
            found[f"{resource}_{kind}_s"] = is_now[kind] - was[kind] if known else None
    return observations.Pressure(**found)


def _frequency(mhz: Sequence[float]) -> observations.Frequency | None:
    mean = _mean(mhz)
    return None if mean is None else observations.Frequency(min=min(mhz), mean=mean, max=max(mhz))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _grown(before: str | None, after: str | None, name: str) -> int:
    """Return the increase of a counter in a file of names and numbers; 0 where it is missing."""
    return text.numbers(after).get(name, 0) - text.numbers(before).get(name, 0)
