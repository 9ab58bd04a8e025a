"""How much CPU time a process is allowed: the CPUs that its threads may run on, and the quota of
its control group or of one above it, of either version."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from millrace.host import parsers as text
from millrace.host.files import read, read_file


def allowed_cpus(pid: int) -> int | None:
    """On how many CPUs the threads of a process may run, all together; None where it is gone."""
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
    """How many CPUs' worth of time a process may use (``process`` is its number, or ``self``), a
    fraction maybe; None without a quota."""
    groups = text.control_groups(read(root, f"proc/{process}/cgroup"))
    quotas = [*_unified(root, groups.get("")), *_old(root, groups.get("cpu"))]
    return min(quotas, default=None)


def _unified(root: Path, group: str | None) -> Iterator[float]:
    for place in _upwards(root / "sys/fs/cgroup", group):
        quota, _, period = (read_file(place / "cpu.max") or "").partition(" ")
        yield from _share(quota, period)


def _old(root: Path, group: str | None) -> Iterator[float]:
    for place in _upwards(root / "sys/fs/cgroup/cpu", group):
        quota = read_file(place / "cpu.cfs_quota_us") or ""
        yield from _share(quota, read_file(place / "cpu.cfs_period_us") or "")


def _upwards(top: Path, group: str | None) -> Iterator[Path]:
    """The group's directory and those above it."""
    if group is not None:
        place = top / group
        yield place
        while place != top:
            place = place.parent
            yield place


def _share(quota: str, period: str) -> Iterator[float]:
    if quota.isdigit() and period.isdigit() and int(period):
        yield int(quota) / int(period)
