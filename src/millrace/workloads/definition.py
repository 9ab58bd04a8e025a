"""Check a workload's definition: its factors, data, phases and metrics.

A definition is plain data (TOML). ``parse_workload`` converts it into typed values or raises
ValidationError with every mistake. This module does not depend on a particular workload, engine or
server.

A workload has one of two kinds of data: ``data`` is a table that is loaded from a named data set;
``tables`` come with ``generators``, ``statements`` and ``tests`` for clients. The load generator
interprets the latter and checks them completely; this module checks the parts that experiments use.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Annotated, Any, Literal, Self, cast, get_args

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from millrace.errors import Diagnostic, ValidationError, did_you_mean, nearest
from millrace.levels import Level, Values
from millrace.model import phases as phase_kinds
from millrace.model.measurements import DURATION, PARTS, duration_s
from millrace.model.phases import APPLY, COMPARE_TABLES, DRIVE, FILL_DISK
from millrace.model.roles import REPLICA, SERVER, SOURCE
from millrace.model.run_spec import Of
from millrace.workloads import schema_factors
from millrace.workloads.defaults import TABLE_OPTIONS
from millrace.workloads.phases import Name, Phase, of_level, split
from millrace.workloads.schema_factors import Definition, DefinitionPart, Misplaced
from millrace.workloads.settings import ClientSettings, unfit_kind
from millrace.workloads.tables import VALUE, Number, TableSet, Volume, evaluated, fill

FILLED = "filled"
"""The table with which a trial fills a disk; its rows have an ``id`` and a ``payload``."""

_OF_TABLES = ("load_tables", "verify_tables", "warm_tables", DRIVE)


class DataSet(DefinitionPart):
    """The data of a workload; ``set`` is the name of the load generator's data set.

    ``row_bytes`` is the mean length of a row as sent. ``table_row_bytes`` is the size of a row in
    the table, by engine; ``default`` is for all other engines. ``rows_per_s`` is a rough loading
    rate, for estimates before the first measurement on a host.
    """

    set: str
    table: str
    row_bytes: int = Field(gt=0)
    table_row_bytes: dict[str, int]
    rows_per_s: int = Field(gt=0)
    columns: list[str] = Field(min_length=1)
    binary_columns: list[str] = Field(default=[])

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "default" not in self.table_row_bytes:
            raise ValueError("table_row_bytes needs 'default', for all other engines")
        if unknown := set(self.binary_columns) - set(self.columns):
            raise ValueError(f"binary_columns has unknown columns: {', '.join(sorted(unknown))}")
        return self

    def table_bytes(self, rows: int, engine: str) -> int:
        return rows * of_level(self.table_row_bytes, engine)


class Check(DefinitionPart):
    """A check after the measurement: its query must return no rows.

    A LIMIT is appended to the query. It may contain ``{factor}`` or ``{parameter}``.
    """

    name: Name
    title: str
    sql: str

    def query(self, values: Mapping[str, Level]) -> str:
        return fill(self.sql.strip(), values)


class BackgroundClients(DefinitionPart):
    """Clients that repeat another test while a test is measured; a closed loop without ``rate``."""

    test: str
    clients: Number = "{clients}"
    rate: Number | None = None


class Test(DefinitionPart):
    """A test with its own default ``values``; the load generator checks its other keys.

    The value of an integer parameter may be a text: an integer expression over other values.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    title: str
    values: dict[str, Level] = Field(default={})
    background_clients: list[BackgroundClients] = Field(default=[])


class Metric(DefinitionPart):
    """A metric by which trials are compared.

    It is either a ratio, the sum of the measurements ``numerator`` divided by that of
    ``denominator``, or the ``percentile`` of latencies in seconds. Latencies are those ``of``
    transactions, statements, background clients, or transactions before, during or after
    maintenance. In a closed loop, ``response`` time is the service time.
    """

    title: str
    unit: str
    direction: Literal["higher", "lower"]
    numerator: list[str] = Field(default=[])
    denominator: list[str] = Field(default=[])
    percentile: float | int | None = Field(default=None, gt=0, le=100)
    of: Of | None = None
    time: Literal["service", "response"] | None = None
    primary: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.percentile is None) != bool(self.numerator):
            raise ValueError("a metric has either a numerator or a percentile")
        if self.percentile is None and (self.of is not None or self.time is not None):
            raise ValueError("'of' and 'time' are allowed only with a percentile")
        if self.percentile is not None:
            if self.denominator:
                raise ValueError("a percentile must not have a denominator")
            if self.of is None or self.time is None:
                raise ValueError("a percentile needs 'of' and 'time'")
            if (self.unit, self.direction) != ("s", "lower"):
                raise ValueError('a percentile needs unit = "s" and direction = "lower"')
        return self


OwnDatabase = Annotated[str, Field(pattern=r"^millrace_[a-z0-9_]{1,50}$")]


class Workload(DefinitionPart):
    """A checked workload: all names in it exist, and exactly one metric is primary."""

    name: str
    title: str
    version: int = Field(ge=1)
    roles: list[Name] = Field(min_length=1)
    factors: dict[str, schema_factors.WorkloadFactor] = Field(default={})
    parameters: dict[str, schema_factors.Parameter] = Field(default={})
    data: DataSet | None = None
    tables: dict[str, TableSet] = Field(default={})
    generators: dict[str, dict[str, Any]] = Field(default={})
    statements: dict[str, dict[str, Any]] = Field(default={})
    tests: dict[str, Test] = Field(default={})
    default_test: str | None = None
    databases: list[OwnDatabase] = Field(default=[])  # created by its statements
    sequence: list[str] = Field(default=[])  # tests that each use the tables of the one before
    phases: list[Phase] = Field(min_length=1)
    checks: list[Check] = Field(default=[])
    metrics: dict[str, Metric]

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        known = {*self.factors, *self.parameters, TABLE_OPTIONS}
        self._check_names()
        for at, phase in enumerate(self.phases):
            for sent in filter(None, (phase, phase.maintenance)):
                if wrong := sent.unknown(known, set(self.factors), set(self.tables)):
                    key = "" if sent is phase else ".maintenance"
                    raise Misplaced(f"phases[{at}]{key}", wrong)
        self._check_settings()
        self._check_data()
        self._check_tests()
        self._check_replica()
        self._check_filling()
        self._check_checks(known)
        timed = {duration_s(phase.name) for phase in self.phases}
        for name, metric in self.metrics.items():
            for measurement in (*metric.numerator, *metric.denominator):
                if measurement.endswith(DURATION) and measurement not in timed:
                    raise Misplaced(f"metrics.{name}", f"{measurement} is not measured by a phase")
            if metric.percentile is not None and not self.drives:
                raise Misplaced(f"metrics.{name}", "latencies need a phase of kind 'drive'")
            if metric.of == "background" and not any(
                test.background_clients for test in self.tests.values()
            ):
                raise Misplaced(f"metrics.{name}", "no test has background clients")
            if metric.of in PARTS and not self.has_maintenance:
                raise Misplaced(f"metrics.{name}", "no phase has maintenance")
        if sum(metric.primary for metric in self.metrics.values()) != 1:
            raise ValueError("exactly one metric must be primary")
        return self

    def _check_names(self) -> None:
        if not self.name.strip():
            raise Misplaced("name", "it is blank")
        if self.roles not in ([SERVER], [SOURCE, REPLICA]):
            raise Misplaced(
                "roles",
                f'roles must be ["{SERVER}"] or ["{SOURCE}", "{REPLICA}"], not {self.roles}',
            )
        for name, statement in self.statements.items():
            sql = statement.get("sql")
            for level, text in sql.items() if isinstance(sql, Mapping) else [(None, sql)]:
                if isinstance(text, str) and not split(text):
                    place = f"statements.{name}.sql" + ("" if level is None else f".{level}")
                    raise Misplaced(place, "the statement is empty")

    def _check_settings(self) -> None:
        """Require the right kinds for the factors and parameters that trials read."""
        for name, factor in self.factors.items():
            if wrong := unfit_kind(name, factor.kind_of_level, factor.choices):
                raise Misplaced(f"factors.{name}", wrong)
        for name, parameter in self.parameters.items():
            if wrong := unfit_kind(name, parameter.kind, parameter.choices):
                raise Misplaced(f"parameters.{name}", wrong)

    def _check_data(self) -> None:
        if both := sorted({*self.factors} & {*self.parameters}):
            raise Misplaced(f"parameters.{both[0]}", f"{both[0]} is also a factor")
        if (self.data is None) == (not self.tables):
            raise ValueError("a workload needs either data or tables")
        if self.data is not None:
            for name in ("rows", "data_seed"):
                if name not in self.parameters or self.parameters[name].kind != "integer":
                    said = f"a workload with data needs the integer parameter {name}"
                    raise Misplaced("parameters", said)
        names = [phase.name for phase in self.phases]
        for at, phase in enumerate(self.phases):
            if phase.name in names[:at]:
                raise Misplaced(f"phases[{at}].name", f"two phases have the name {phase.name!r}")
            if phase.kind in _OF_TABLES and not self.tables:
                raise Misplaced(f"phases[{at}]", "the workload has no tables")
            if phase.kind in ("load_data", "count", "checksum") and self.data is None:
                raise Misplaced(f"phases[{at}]", "the workload has no data")

    def _check_tests(self) -> None:
        drives = [phase for phase in self.phases if phase.kind == DRIVE]
        if len(drives) > 1:
            raise ValueError("only one phase of kind 'drive' is allowed")
        if bool(drives) != bool(self.tests):
            raise ValueError("tests need a phase of kind 'drive', and such a phase needs tests")
        if self.tests and self.default_test not in self.tests:
            named = self.default_test
            wrong = "is missing" if named is None else f"unknown test {named!r}"
            listed = f"; expected one of {', '.join(self.tests)}"
            near = did_you_mean(named, self.tests)
            raise Misplaced("default_test", f"{wrong}{listed}{near}")
        if not self.tests and self.default_test is not None:
            raise Misplaced("default_test", "allowed only in a workload with tests")
        if missing := set(self.sequence) - set(self.tests):
            raise Misplaced("sequence", f"unknown test {missing.pop()!r}")
        if len(set(self.sequence)) < len(self.sequence):
            raise Misplaced("sequence", "a test is listed twice")
        for name, test in self.tests.items():
            if unknown := set(test.values) - {*self.factors, *self.parameters}:
                said = f"unknown factor or parameter {unknown.pop()!r}"
                raise Misplaced(f"tests.{name}.values", said)
            if missing := {each.test for each in test.background_clients} - set(self.tests):
                said = f"unknown test {missing.pop()!r}"
                raise Misplaced(f"tests.{name}.background_clients", said)

    def _check_replica(self) -> None:
        kinds: list[str] = [phase.kind for phase in self.phases]
        has_replica = kinds.count(APPLY) == 1
        if has_replica != (self.roles == [SOURCE, REPLICA]):
            raise ValueError(
                f"roles {SOURCE} and {REPLICA} need one phase {APPLY!r}, which needs these roles"
            )
        if has_replica:
            if lacking := {"attach", "log_format", "gtid"} - {*self.factors}:
                raise ValueError(f"a workload with a replica needs the factor {lacking.pop()!r}")
            after = set(kinds[kinds.index(APPLY) + 1 :])
            if unfit := after - {"count", "checksum", COMPARE_TABLES}:
                raise ValueError(f"a phase {unfit.pop()!r} cannot come after {APPLY!r}")
        elif COMPARE_TABLES in kinds:
            raise ValueError("a phase 'compare_tables' needs a phase 'apply' before it")

    def _check_filling(self) -> None:
        if not self.fills_disk:
            return
        if self.phases[-1].kind != FILL_DISK or self.drives or self.replicates:
            raise ValueError(
                f"{FILL_DISK!r} must be the last phase, in a workload without tests and replica"
            )
        needed = {"filled_by", "free_mb", "full_s", "recovery_s"}
        if lacking := needed - {*self.factors, *self.parameters}:
            raise ValueError(f"a workload that fills a disk needs {lacking.pop()!r}")
        if set(self.tables) != {FILLED}:
            raise ValueError(f"a workload that fills a disk needs exactly one table, {FILLED!r}")

    @property
    def fills_disk(self) -> bool:
        return any(phase.kind == FILL_DISK for phase in self.phases)

    @property
    def replicates(self) -> bool:
        """Return whether a replica applies the changes of a source."""
        return REPLICA in self.roles

    def _check_checks(self, known: set[str]) -> None:
        if self.checks and not self.tests:
            raise ValueError("checks are allowed only in a workload with tests")
        names = [check.name for check in self.checks]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two checks have the name {twice!r}")
        for at, check in enumerate(self.checks):
            if unknown := set(VALUE.findall(check.sql)) - known:
                raise Misplaced(f"checks[{at}].sql", f"unknown {{{unknown.pop()}}}")

    @property
    def measured(self) -> phase_kinds.MeasuredPhases:
        primary = next(metric for metric in self.metrics.values() if metric.primary)
        kinds = [(phase.name, phase.kind) for phase in self.phases]
        return phase_kinds.measured_phases(kinds, (*primary.numerator, *primary.denominator))

    @property
    def drives(self) -> bool:
        """Return whether the workload has clients; otherwise its phases are measured."""
        return bool(self.tests)

    @property
    def has_maintenance(self) -> bool:
        return any(phase.maintenance is not None for phase in self.phases)

    def test_values(self) -> set[str]:
        """Return the names of values for which any test has its own default."""
        return {name for test in self.tests.values() for name in test.values}

    def defaults(self) -> dict[str, Level]:
        """Return the default of every factor and of every parameter that has one."""
        every: dict[str, schema_factors.WorkloadFactor | schema_factors.Parameter] = {
            **self.factors,
            **self.parameters,
        }
        return {name: each.default for name, each in every.items() if each.default is not None}

    def values(self, chosen: Values) -> dict[str, Level]:
        """Return the values of all factors and parameters, for the clients of the chosen test.

        A value comes from ``chosen``, else from the test, else from the default. Tables do not use
        these values, because they must not depend on the test; see ``volume``.
        """
        test = self.tests.get(str(chosen.get("test", self.default_test)))
        values = {**self.defaults(), **(test.values if test else {}), **chosen}
        for name in test.values if test else ():
            parameter = self.parameters.get(name)
            if parameter and parameter.kind == "integer" and isinstance(values[name], str):
                values[name] = evaluated(values[name], values)
        return values

    def client_settings(self, chosen: Values) -> ClientSettings:
        return ClientSettings.model_validate(self.values(chosen))

    def prior_tests(self, values: Values) -> tuple[str, ...]:
        """Return the tests of the sequence that run before the chosen test, in order."""
        test = str(values.get("test", self.default_test))
        return tuple(self.sequence[: self.sequence.index(test)]) if test in self.sequence else ()

    def background_client_count(self, values: Values) -> int:
        test = self.tests.get(str(values.get("test", self.default_test)))
        background = test.background_clients if test else ()
        return sum(evaluated(each.clients, values) for each in background)

    def data_bytes(self, chosen: Values) -> int:
        """Return the approximate data size in bytes; memory and redo log sizes scale with it."""
        if self.data is not None:
            return int(chosen["rows"]) * self.data.row_bytes
        return self.volume(chosen).data_bytes

    def volume(self, chosen: Values) -> Volume:
        values = {**self.defaults(), **chosen}
        volumes = [astuple(tables.volume(values)) for tables in self.tables.values()]
        return Volume(*map(sum, zip(*volumes, strict=True))) if volumes else Volume(0, 0, 0, 0)


def parse_workload(definition: Definition) -> Workload:
    """Return the checked form of a definition; raise ValidationError with every mistake."""
    try:
        return Workload.model_validate(dict(definition))
    except pydantic.ValidationError as error:
        diagnostics: dict[str, Diagnostic] = {}
        types: set[str] = set()  # places with a value of another type
        for found in error.errors(include_url=False):
            place, reason = _place(found["loc"], definition), found.get("ctx", {}).get("error")
            if isinstance(reason, Misplaced):
                place = ".".join(filter(None, (place, reason.where)))
            message = found["msg"].removeprefix("Value error, ")
            where = place or "the workload"
            near = expected = None
            if found["type"] == "extra_forbidden":
                known = sorted(_known_keys(found["loc"]))
                message, expected = "unknown key", f"one of {', '.join(known)}"
                near = nearest(found["loc"][-1], known)
            # For a value with several possible types, only the first message is kept.
            diagnostics.setdefault(where, Diagnostic(where, message, expected, near))
            if found["type"].endswith("_type"):
                types.add(where)
        # A mistake within a value shows that the value's own type is right.
        for where in types:
            if any(each.startswith((f"{where}.", f"{where}[")) for each in diagnostics):
                del diagnostics[where]
        name = f"workload {definition.get('name', '?')}"
        raise ValidationError(name, list(diagnostics.values())) from None


def _known_keys(place: tuple[str | int, ...]) -> set[str]:
    """Return the known keys of the table that contains the last key of ``place``."""
    parts: set[type[BaseModel]] = {Workload}
    for key in place[:-1]:
        named = [part.model_fields[str(key)] for part in parts if str(key) in part.model_fields]
        parts = {model for each in named for model in _models(each.annotation)} or parts
    return {name for part in parts for name in part.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def _place(keys: tuple[str | int, ...], definition: Definition) -> str:
    """Return a key's place, such as ``phases[2].kind``; the last key may be missing."""
    place, part = "", cast(Any, definition)
    for at, key in enumerate(keys):
        is_there = (
            key in part
            if isinstance(part, Mapping)
            else isinstance(part, list) and isinstance(key, int) and key < len(part)
        )
        if not is_there and not (isinstance(part, Mapping) and at == len(keys) - 1):
            continue  # not a key, but the name of a type that pydantic tried
        place += f"[{key}]" if isinstance(key, int) else f".{key}"
        part = part[key] if is_there else None
    return place.removeprefix(".")
