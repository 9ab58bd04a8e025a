"""Partition the CPUs of this host in two, for pairs of trials that run at the same time."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import UserError

CoreOf = Callable[[int], tuple[int, int]]

_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class CpuPartition:
    """The CPUs that one trial of a pair and all its processes use; ``side`` is 0 or 1."""

    side: int
    cpus: tuple[int, ...]


def cpu_partitions() -> tuple[CpuPartition, CpuPartition]:
    """Return two partitions of this process's CPUs. Raise UserError where it has only one."""
    return partition(os.sched_getaffinity(0), core_of)


def partition(cpus: Collection[int], core_of: CoreOf) -> tuple[CpuPartition, CpuPartition]:
    """Divide CPUs into two partitions of equal size.

    CPUs of one core stay together where there are several cores, and cores of one package as far as
    possible. A CPU that would make the partitions unequal belongs to neither. ``core_of`` returns
    the package and the core of a CPU. Raise UserError for a single CPU.
    """
    if len(cpus) < 2:
        raise UserError(
            "there is only one CPU here that millrace may use, and each side needs one of its own",
            hint="measure in turns (--interleaved), or on a host with more CPUs",
        )
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(core_of(cpu), []).append(cpu)
    parts = [cores[core] for core in sorted(cores)]
    if len(parts) == 1:
        parts = [[cpu] for cpu in parts[0]]
    number = len(parts) // 2
    first, second = (
        [cpu for part in side for cpu in part] for side in (parts[:number], parts[-number:])
    )
    number = min(len(first), len(second))
    return (
        CpuPartition(0, tuple(sorted(first[:number]))),
        CpuPartition(1, tuple(sorted(second[-number:]))),
    )


def core_of(cpu: int, root: Path = _CPUS) -> tuple[int, int]:
    """Return the package and the core of a CPU; a core of its own where they are unknown."""
    try:
        package, core = (
            int((root / f"cpu{cpu}" / "topology" / name).read_text(encoding="ascii"))
            for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):
        return -1, cpu
    return package, core
