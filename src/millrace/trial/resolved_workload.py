"""Resolve a trial's workload: its definition with parameters and the levels of a treatment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from millrace import databases
from millrace.levels import Level, Values
from millrace.loadgen.spec import Tables
from millrace.model.phases import APPLY
from millrace.servers.snapshots.data_files import State as PageCache
from millrace.workloads import DRIVE, Phase, Workload, parse_workload
from millrace.workloads.defaults import DROP_AFTER, TABLE_OPTIONS
from millrace.workloads.settings import ClientSettings, LoadSettings
from millrace.workloads.statement_effects import defines_tables, statement_kinds

# Names that the load generator defines. The number of clients is a factor too, and may be that of
# the tables.
_BUILT_IN = frozenset(("table", "n", "client"))

_TABLES = ("tables", "generators", "statements", "tests")


@dataclass(frozen=True)
class ResolvedWorkload:
    """A workload, and the experiment's values for its factors and parameters."""

    definition: Mapping[str, object]  # as plain data
    chosen: Values  # by the experiment: see experiment.plan.chosen
    table_options: str = ""  # of CREATE TABLE: see databases.table_formats

    @cached_property
    def checked(self) -> Workload:
        """The checked definition."""
        return parse_workload(self.definition)

    @property
    def drives(self) -> bool:
        """True where clients are driven; otherwise, loading is measured."""
        return self.checked.drives

    @property
    def reads_a_file(self) -> bool:
        """True where the server reads the data from a file."""
        return bool(self.values.get("load_mode") == "server_file")

    @cached_property
    def values(self) -> dict[str, Level]:
        """The value of every factor and parameter that clients are driven by."""
        return {**self.checked.values(self.chosen), TABLE_OPTIONS: self.table_options}

    @cached_property
    def table_values(self) -> dict[str, Level]:
        """The values for the tables, which no test changes: treatments of a data set share them."""
        return {**self.checked.defaults(), **self.chosen, TABLE_OPTIONS: self.table_options}

    @cached_property
    def client_settings(self) -> ClientSettings:
        """The values by which clients are driven."""
        return ClientSettings.model_validate(self.values)

    @cached_property
    def load_settings(self) -> LoadSettings:
        """The values by which the tables are loaded."""
        return LoadSettings.model_validate(self.table_values)

    @property
    def tables(self) -> Tables | None:
        """The workload's tables and tests in the load generator's form."""
        if not self.checked.tables:
            return None
        return Tables(
            workload=self.parts,
            defaults=self.checked.defaults(),
            values={**self.chosen, TABLE_OPTIONS: self.table_options},
            seed=self.load_settings.data_seed,
        )

    @property
    def parts(self) -> dict[str, object]:
        """The parts of the definition that the load generator reads."""
        return {key: self.definition.get(key, {}) for key in _TABLES}

    @property
    def rows(self) -> int:
        """The number of rows of all tables together."""
        if self.checked.data is not None:
            return int(self.chosen["rows"])
        return self.checked.volume(self.chosen).rows

    @property
    def connections(self) -> int | None:
        """The number of driven or loading connections, which waking CPUs can delay, if any."""
        if self.checked.drives:
            return self.client_settings.clients + self.background_clients
        if not self.checked.tables:
            return None
        asked = self.load_settings.load_threads or len(os.sched_getaffinity(0))
        if self.load_settings.load_chunk_rows:
            return asked
        return min(asked, self.checked.volume(self.chosen).tables)

    @property
    def background_clients(self) -> int:
        """The number of clients that work while those of the test are measured."""
        return self.checked.background_client_count(self.values)

    @property
    def is_restorable(self) -> bool:
        """True where loaded tables are kept as a snapshot and restored for every trial."""
        return self.checked.drives and self.keeps_snapshots and self.survives_restart

    @property
    def survives_restart(self) -> bool:
        """True where tables still have their rows when the server starts again."""
        return not databases.is_volatile(str(self.table_values.get("engine", "")))

    @cached_property
    def writes(self) -> bool:
        """True where driven clients may change rows."""
        return self.drives and not statement_kinds(self.definition, self.values) <= {"read"}

    @cached_property
    def defines_tables(self) -> bool:
        """True where driven clients make or change tables or indexes, whose pages are new."""
        return self.drives and defines_tables(self.definition, self.values)

    @property
    def drops_after(self) -> bool:
        """True where the trial ends with a DROP DATABASE that is timed."""
        return bool(self.values.get(DROP_AFTER) == "on")

    @property
    def loops(self) -> int:
        """The number of times that clients are driven, one after the other."""
        return self.client_settings.loops if self.drives else 1

    @property
    def page_cache(self) -> PageCache:
        """The place of restored files when a server starts.

        Unless the experiment says it, they are in memory where clients write to cached tables: a
        server may write its log in parts of a page, and a page that is not in memory is read first.
        """
        settings = self.client_settings
        if settings.page_cache != "auto":
            return settings.page_cache
        return "warm" if settings.cache_mode == "cached" and self.writes else "cold"

    @property
    def keeps_snapshots(self) -> bool:
        """True unless the user disables that data directories are kept as snapshots.

        One on a file system of its own cannot be moved.
        """
        return self.values.get("snapshot", "on") == "on" and not self.checked.fills_disk

    @property
    def content_key(self) -> dict[str, Any]:
        """The inputs that decide the content of the loaded tables, for the key of a snapshot."""
        tables = self.definition["tables"]
        loading = {name: self.table_values.get(name) for name in ("load_method", "lock_tables")}
        if self.table_values.get("load_chunk_rows"):
            names = ("load_chunk_rows", "load_threads")
            loading |= {name: self.table_values[name] for name in names}
        phases = [
            each.statements(self.table_values, self.checked.tables) for each in self.making_phases
        ]
        statements = [sql for phase in phases for sql in phase]
        aged = {"values": [each.values for each in self.prior], **self.parts}
        return {
            **({"statements": statements} if statements else {}),
            **({"aged": aged} if self.prior else {}),
            "tables": tables,
            "values": {name: self.table_values[name] for name in sorted(_named_in(tables))},
            "seed": self.table_values["data_seed"],
            "loading": loading,
        }

    @cached_property
    def prior(self) -> tuple[ResolvedWorkload, ...]:
        """The workload with each test that comes before the chosen one in its sequence."""
        tests = self.checked.prior_tests(self.values)
        return tuple(replace(self, chosen={**self.chosen, "test": test}) for test in tests)

    @property
    def drive_phase(self) -> Phase:
        """The phase that drives clients."""
        return next(phase for phase in self.checked.phases if phase.kind == DRIVE)

    @property
    def making_phases(self) -> tuple[Phase, ...]:
        """The phases that make the data for driven clients; none where phases are measured."""
        if not self.checked.drives:
            return ()
        phases = self.checked.phases
        reading = (at for at, phase in enumerate(phases) if phase.kind in ("warm_tables", DRIVE))
        return tuple(phases[: next(reading)])

    @property
    def warming_phases(self) -> tuple[Phase, ...]:
        """The phases between the generation of the data and the driven clients."""
        between = self.checked.phases[len(self.making_phases) :]
        names = [phase.kind for phase in between]
        return tuple(between[: names.index(DRIVE)]) if DRIVE in names else ()

    @property
    def measuring_phases(self) -> tuple[Phase, ...]:
        """The load generator's measured phases, and those after them."""
        phases = self.checked.phases[len(self.making_phases) + len(self.warming_phases) :]
        kinds = [phase.kind for phase in phases]
        return tuple(phases[: kinds.index(APPLY)] if APPLY in kinds else phases)

    @property
    def apply_phase(self) -> Phase | None:
        """The phase in which a replica applies the changes of its source, if there is one."""
        return next((phase for phase in self.checked.phases if phase.kind == APPLY), None)

    @property
    def checking_phases(self) -> tuple[Phase, ...]:
        """The phases after the replica has applied all changes; they check both servers."""
        phases = self.checked.phases
        if self.apply_phase is None:
            return ()
        return tuple(phases[phases.index(self.apply_phase) + 1 :])


def _named_in(part: Any) -> set[str]:
    """Return the factors and parameters that a definition names, as ``{name}`` or in ``by``."""
    match part:
        case str():
            return set(re.findall(r"\{(\w+)\}", part)) - _BUILT_IN
        case Mapping():
            chooser = {part["by"]} if "by" in part else set()
            return chooser.union(*map(_named_in, part.values()))
        case list() | tuple():
            return set().union(*map(_named_in, part))
    return set()
