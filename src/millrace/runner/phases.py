"""A workload's phases: made into the load generator's spec, and its answer into measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.errors import TrialFailed
from millrace.load.client import DataChecksum, LoadResult
from millrace.load.spec import Connection, GeneratedSource, LoadData, RunSpec, ServerFile, Statement
from millrace.store.records import Level, MeasurementRecord, StepRecord
from millrace.workloads.definition import Phase, Workload

# Time limits, generous: they end what hangs, not what is slow. The slowest published load made
# 199,446 rows/s and the slowest count(*) 373,689 rows/s; a tenth to a fiftieth of that is "hung".
_SHORT_LIMIT_S = 120.0
_LOAD_ROWS_PER_S = 5_000
_SCAN_ROWS_PER_S = 20_000

UTC_SESSION = ("SET time_zone = '+00:00'",)


@dataclass(frozen=True)
class DataFile:
    """The generated data as a file the server can read (`load_mode = "server_file"`)."""

    path: Path


@dataclass(frozen=True)
class Work:
    """What a trial does: a workload, its parameters, and the levels of the treatment."""

    workload: Workload
    parameters: Mapping[str, Any]
    levels: Mapping[str, Level]

    @property
    def rows(self) -> int:
        return int(self.parameters["rows"])

    @property
    def reads_a_file(self) -> bool:
        """Whether the server reads the data from a file."""
        return self.levels.get("load_mode") == "server_file"


def spec(work: Work, connection: Connection, data_file: DataFile | None) -> RunSpec:
    """The load generator's spec for one trial."""
    phases = tuple(_phase(phase, work, data_file) for phase in work.workload.phases)
    return RunSpec(connection=connection, session=UTC_SESSION, phases=phases)


def limit_s(work: Work) -> float:
    """What all phases together may take, in seconds."""
    return sum(_limit_s(phase, work.rows) for phase in work.workload.phases)


def _limit_s(phase: Phase, rows: int) -> float:
    rows_per_s = _LOAD_ROWS_PER_S if phase.kind == "load_data" else _SCAN_ROWS_PER_S
    return _SHORT_LIMIT_S + rows / rows_per_s


def _phase(phase: Phase, work: Work, data_file: DataFile | None) -> LoadData | Statement:
    data, within_s = work.workload.data, _limit_s(phase, work.rows)
    match phase.kind:
        case "load_data":
            source = (
                GeneratedSource(data.set, work.rows, int(work.parameters["data_seed"]))
                if data_file is None
                else ServerFile(data_file.path)
            )
            return LoadData(phase.name, data.table, tuple(data.columns), source, within_s)
        case "count":
            return Statement(phase.name, (count_sql(work.workload),), within_s)
        case "checksum":
            return Statement(phase.name, (checksum_sql(work.workload),), within_s)
        case "sql":
            statements = phase.statements({**work.parameters, **work.levels})
            return Statement(phase.name, statements, within_s)


def count_sql(workload: Workload) -> str:
    return f"SELECT count(*) FROM {workload.data.table}"  # noqa: S608 - our own table name


def checksum_sql(workload: Workload) -> str:
    """An order-independent checksum of the columns, the same in every family and version.

    CHECKSUM TABLE is not portable; the sum of the rows' CRC32 is, when numbers and times are
    compared as text in a UTC session and text as bytes, whatever the table's character set.
    """
    data = workload.data
    columns = ", ".join(
        f"CAST({column} AS BINARY)" if column in data.binary_columns else column
        for column in data.columns
    )
    return f"SELECT count(*), sum(crc32(concat_ws('\\t', {columns}))) FROM {data.table}"  # noqa: S608


def step_records(result: LoadResult) -> tuple[StepRecord, ...]:
    """The phases as steps, one after another from the load generator's first."""
    records = []
    offset_s = 0.0
    for position, phase in enumerate(result.phases):
        records.append(StepRecord(position, phase.name, offset_s, phase.duration_s, "finished"))
        offset_s += phase.duration_s
    return tuple(records)


def measurements(
    workload: Workload, result: LoadResult, expected: DataChecksum
) -> tuple[MeasurementRecord, ...]:
    """What the phases yielded: durations, rows and bytes loaded, the load generator's CPU time."""
    found = [
        MeasurementRecord("rows", expected.rows),
        MeasurementRecord("data_bytes", expected.bytes),
    ]
    loads = {phase.name for phase in workload.phases if phase.kind == "load_data"}
    for phase in result.phases:
        found.append(MeasurementRecord(f"{phase.name}_duration_s", phase.duration_s))
        if phase.generator_wait_s is not None:
            found.append(
                MeasurementRecord(f"{phase.name}_generator_wait_s", phase.generator_wait_s)
            )
        if phase.name in loads:
            found.append(MeasurementRecord(f"{phase.name}_warnings", phase.warnings))
    usage = result.client
    found += [
        MeasurementRecord("load_generator_user_s", usage.user_s),
        MeasurementRecord("load_generator_system_s", usage.system_s),
        MeasurementRecord("load_generator_voluntary_switches", usage.voluntary_switches),
        MeasurementRecord("load_generator_involuntary_switches", usage.involuntary_switches),
    ]
    return tuple(found)


def verify(workload: Workload, result: LoadResult, expected: DataChecksum) -> None:
    """Raise TrialFailed unless the table holds exactly the rows that were generated."""
    kinds = {phase.name: phase.kind for phase in workload.phases}
    for phase in result.phases:
        kind = kinds[phase.name]
        if kind == "count":
            _expect(phase.name, "rows", _cell(phase.result, 0), expected.rows)
        elif kind == "checksum":
            _expect(phase.name, "rows", _cell(phase.result, 0), expected.rows)
            _expect(phase.name, "checksum", _cell(phase.result, 1), expected.checksum)


def _cell(rows: Sequence[Sequence[str | None]] | None, column: int) -> int:
    return int(rows[0][column] or 0) if rows else 0


def _expect(phase: str, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise TrialFailed(
            f"the table holds other data than was made: {what} {found:,}, expected {expected:,}",
            remedy="look at the server's error log and warnings: rows were lost or changed",
            step=phase,
        )
