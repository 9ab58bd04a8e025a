"""Read how many CPUs a process may use: its affinity, and the quota of its control groups."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from millrace.host import parsers as text
from millrace.host.files import read


def allowed_cpus(pid: int) -> int | None:
    """Return the number of CPUs in the affinity of a process's threads; None if it has ended."""
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
    """Return the lowest CPU quota of a process or ``self``, such as 1.5 CPUs; None without one."""
    groups = text.control_groups(read(root, f"proc/{process}/cgroup"))
    quotas = (
        int(quota) / int(period)
        for quota, period in _quotas(root, groups)
        if quota.isdigit() and period.isdigit() and int(period)
    )
    return min(quotas, default=None)


def _quotas(root: Path, groups: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for place in _upwards(root / "sys/fs/cgroup", groups.get("")):  # version 2
        quota, _, period = (read(place, "cpu.max") or "").partition(" ")
        yield quota, period
    for place in _upwards(root / "sys/fs/cgroup/cpu", groups.get("cpu")):  # version 1
        yield read(place, "cpu.cfs_quota_us") or "", read(place, "cpu.cfs_period_us") or ""


def _upwards(top: Path, group: str | None) -> list[Path]:
    """Return the directories of a control group and of the groups above it, deepest first."""
    ways = () if group is None else (top / group, *(top / group).parents)
    return [place for place in ways if place.is_relative_to(top)]
