"""Define kinds of phases, and find the phases of a workload that its metrics measure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millrace.model.measurements import DURATION, TRIMMED, duration_s

DRIVE = "drive"
"""The kind of a phase that drives clients."""

APPLY = "apply"
"""The kind of a phase in which a replica applies the changes of its source."""

FILL_DISK = "fill_disk"
"""The kind of a phase that writes until the file system of the server's data is full."""

COMPARE_TABLES = "compare_tables"
"""The kind of a phase that compares the tables of a source and its replica."""

LOADING = ("load_data", "load_tables")
"""The kinds of phases that load rows."""


@dataclass(frozen=True)
class MeasuredPhases:
    """The names of measured phases, in their order.

    ``driven``: the phase that drives clients, None without one.
    ``timed``: the phases whose time is the result: applying on a replica or filling a disk, else
    the driven phase, else the phases of the primary metric.
    ``loading``: the phases that load rows, if their time can be part of the result.
    ``of_replica``: whether the time of a replica is the result.
    """

    driven: str | None
    timed: tuple[str, ...]
    loading: tuple[str, ...]
    of_replica: bool = False

    @property
    def durations(self) -> tuple[str, ...]:
        """The names of the measurements whose sum is the measured time."""
        return tuple(map(duration_s, self.timed))


def measured_phases(kinds: Sequence[tuple[str, str]], primary: Iterable[str]) -> MeasuredPhases:
    """Return the measured phases of (name, kind) pairs; ``primary``: the metric's measurements."""
    driven = next((name for name, kind in kinds if kind == DRIVE), None)
    counted = {
        name.removesuffix(DURATION).removesuffix(TRIMMED)
        for name in primary
        if name.endswith((DURATION, TRIMMED))
    }
    applied = tuple(name for name, kind in kinds if kind == APPLY)
    alone = applied or tuple(name for name, kind in kinds if kind == FILL_DISK)
    of_primary = tuple(name for name, _ in kinds if name in counted)
    timed = alone or (of_primary if driven is None else (driven,))
    loading = tuple(name for name, kind in kinds if kind in LOADING and not alone)
    return MeasuredPhases(driven, timed, loading, of_replica=bool(applied))
