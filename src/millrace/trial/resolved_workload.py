"""What a trial does: a workload with its parameters and the levels of a treatment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from millrace.loadgen.spec import Tables
from millrace.workloads import DRIVE, Phase, Workload, checked

# Engines that keep rows in memory only: nothing of a table is left after a restart.
_VOLATILE_ENGINES = frozenset(("memory", "heap"))

# Names that the load generator gives itself. The number of clients is a factor too, and may be that
# of the tables.
_BUILT_IN = frozenset(("table", "n", "client"))

_TABLES = ("tables", "draws", "statements", "tests")


@dataclass(frozen=True)
class DataFile:
    """The generated data as a file the server can read (`load_mode = "server_file"`)."""

    path: Path


@dataclass(frozen=True)
class ResolvedWorkload:
    """What a trial does: a workload, and what the experiment has chosen of what it offers.

    ``definition`` is the workload's as plain data; ``chosen`` are the values of its factors and
    parameters that the experiment decides (see ``experiment.plan.chosen``).
    """

    definition: Mapping[str, Any]
    chosen: Mapping[str, Any]

    @cached_property
    def workload(self) -> Workload:
        """The definition, checked."""
        return checked(self.definition)

    @property
    def reads_a_file(self) -> bool:
        """Whether the server reads the data from a file."""
        return bool(self.values.get("load_mode") == "server_file")

    @cached_property
    def values(self) -> dict[str, Any]:
        """The value of every factor and parameter, as clients are driven by it."""
        return self.workload.values(self.chosen)

    @cached_property
    def of_tables(self) -> dict[str, Any]:
        """The same for the tables, which no test changes: all treatments of one data set share
        them."""
        return {**self.workload.defaults(), **self.chosen}

    @property
    def tables(self) -> Tables | None:
        """The workload's tables and tests as the load generator takes them."""
        if not self.workload.tables:
            return None
        return Tables(
            definition={key: self.definition.get(key, {}) for key in _TABLES},
            defaults=self.workload.defaults(),
            values=dict(self.chosen),
            seed=int(self.of_tables["data_seed"]),
        )

    @property
    def rows(self) -> int:
        """Rows of all tables together."""
        if self.workload.data is not None:
            return int(self.chosen["rows"])
        return self.workload.volume(self.chosen).rows

    @property
    def connections(self) -> int | None:
        """How many connections talk to the server in turns with it, which waking CPUs can delay:
        clients that are driven, or that load tables where that is what is measured. None where
        data is only sent."""
        if self.workload.drives:
            return int(self.values["clients"])
        if not self.workload.tables:
            return None
        asked = int(self.of_tables["load_threads"]) or len(os.sched_getaffinity(0))
        return min(asked, self.workload.volume(self.chosen).tables)

    @property
    def is_restorable(self) -> bool:
        """Whether loaded tables are made once, kept as a snapshot, and restored for every trial."""
        engine = str(self.of_tables.get("engine", "")).casefold()
        return self.workload.drives and self.keeps_snapshots and engine not in _VOLATILE_ENGINES

    @property
    def keeps_snapshots(self) -> bool:
        """Whether data directories are kept as snapshots, which a user may not want."""
        return bool(self.values.get("template", "on") == "on")

    @property
    def made_of(self) -> dict[str, Any]:
        """What decides the content of the loaded tables, as plain data: the key of a snapshot."""
        tables = self.definition["tables"]
        loading = {name: self.of_tables.get(name) for name in ("load_method", "lock_tables")}
        return {
            "tables": tables,
            "values": {name: self.of_tables[name] for name in sorted(_named_in(tables))},
            "seed": self.of_tables["data_seed"],
            "loading": loading,
        }

    @property
    def making(self) -> tuple[Phase, ...]:
        """The phases that make the data that clients are driven on, before the first that reads it;
        none where the phases themselves are what is measured."""
        if not self.workload.drives:
            return ()
        phases = self.workload.phases
        reading = (at for at, phase in enumerate(phases) if phase.kind in ("warm_tables", DRIVE))
        return tuple(phases[: next(reading)])

    @property
    def warming(self) -> tuple[Phase, ...]:
        """The phases between the making of the data and the driving of clients."""
        between = self.workload.phases[len(self.making) :]
        names = [phase.kind for phase in between]
        return tuple(between[: names.index(DRIVE)]) if DRIVE in names else ()

    @property
    def measuring(self) -> tuple[Phase, ...]:
        """The phases that are measured, and what follows them."""
        return tuple(self.workload.phases[len(self.making) + len(self.warming) :])


def _named_in(part: Any) -> set[str]:
    """The factors and parameters that a part of a definition names: as ``{name}``, or as the one
    that chooses among texts (``by``). Built-in names such as ``{table}`` are not among them."""
    match part:
        case str():
            return set(re.findall(r"\{(\w+)\}", part)) - _BUILT_IN
        case Mapping():
            chooser = {part["by"]} if "by" in part else set()
            return chooser.union(*map(_named_in, part.values()))
        case list() | tuple():
            return set().union(*map(_named_in, part))
    return set()
