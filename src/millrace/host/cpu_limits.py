"""The CPUs that a process may use: its affinity, and the least quota of its control groups."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from millrace.host import parsers as text
from millrace.host.files import read, read_file


def allowed_cpus(pid: int) -> int | None:
    """Return the number of CPUs that a process's threads may use in all; None where it is gone."""
    allowed: set[int] = set()
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - quick
    except OSError:
        return None
    for task in tasks:
        with contextlib.suppress(OSError):
            allowed |= os.sched_getaffinity(int(task))
    return len(allowed) or None


def quota_cpus(process: str, root: Path) -> float | None:
    """Return the quota, maybe a fraction, of a process or ``self`` in CPUs; None without one."""
    groups = text.control_groups(read(root, f"proc/{process}/cgroup"))
    quotas = [*_version_2(root, groups.get("")), *_version_1(root, groups.get("cpu"))]
    return min(quotas, default=None)


def _version_2(root: Path, group: str | None) -> Iterator[float]:
    for place in _upwards(root / "sys/fs/cgroup", group):
        quota, _, period = (read_file(place / "cpu.max") or "").partition(" ")
        yield from _share(quota, period)


def _version_1(root: Path, group: str | None) -> Iterator[float]:
    for place in _upwards(root / "sys/fs/cgroup/cpu", group):
        quota = read_file(place / "cpu.cfs_quota_us") or ""
        yield from _share(quota, read_file(place / "cpu.cfs_period_us") or "")


def _upwards(top: Path, group: str | None) -> Iterator[Path]:
    """Yield the directory of a group, then those of the groups above it."""
    if group is not None:
        place = top / group
        yield place
        while place != top:
            place = place.parent
            yield place


def _share(quota: str, period: str) -> Iterator[float]:
    if quota.isdigit() and period.isdigit() and int(period):
        yield int(quota) / int(period)
