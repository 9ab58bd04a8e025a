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


def reads_a_file(levels: Mapping[str, Level]) -> bool:
    """Whether the server reads the data from a file at these levels."""
    return levels.get("load_mode") == "server_file"


def spec(
    workload: Mapping[str, Any],
    parameters: Mapping[str, Any],
    levels: Mapping[str, Level],
    connection: Connection,
    data_file: DataFile | None,
) -> RunSpec:
    """The load generator's spec for one trial of ``workload`` at these levels."""
    phases = tuple(
        _phase(phase, workload, parameters, levels, data_file) for phase in workload["phases"]
    )
    return RunSpec(connection=connection, session=UTC_SESSION, phases=phases)


def _phase(
    phase: Mapping[str, Any],
    workload: Mapping[str, Any],
    parameters: Mapping[str, Any],
    levels: Mapping[str, Level],
    data_file: DataFile | None,
) -> LoadData | Statement:
    rows = int(parameters["rows"])
    data = workload["data"]
    name = phase["name"]
    if phase["kind"] == "load_data":
        source = (
            GeneratedSource(data["set"], rows, int(parameters["data_seed"]))
            if data_file is None
            else ServerFile(data_file.path)
        )
        limit_s = _SHORT_LIMIT_S + rows / _LOAD_ROWS_PER_S
        return LoadData(name, data["table"], tuple(data["columns"]), source, limit_s)
    if phase["kind"] == "count":
        return Statement(name, (count_sql(workload),), _scan_limit_s(rows))
    if phase["kind"] == "checksum":
        return Statement(name, (checksum_sql(workload),), _scan_limit_s(rows))
    return Statement(name, _statements(phase, levels), _scan_limit_s(rows))


def _scan_limit_s(rows: int) -> float:
    return _SHORT_LIMIT_S + rows / _SCAN_ROWS_PER_S


def _statements(phase: Mapping[str, Any], levels: Mapping[str, Level]) -> tuple[str, ...]:
    """The SQL of a phase at these levels, one statement an entry."""
    sql = phase["sql"]
    if "by" in phase:
        sql = sql.get(str(levels[phase["by"]]), sql["default"])
    filled = sql.format(**{name.replace(".", "_"): level for name, level in levels.items()})
    return tuple(part.strip() for part in filled.split(";") if part.strip())


def count_sql(workload: Mapping[str, Any]) -> str:
    return f"SELECT count(*) FROM {workload['data']['table']}"  # noqa: S608 - our own table name


def checksum_sql(workload: Mapping[str, Any]) -> str:
    """An order-independent checksum of the columns, the same in every family and version.

    CHECKSUM TABLE is not portable; the sum of the rows' CRC32 is, when numbers and times are
    compared as text in a UTC session and text as bytes, whatever the table's character set.
    """
    data = workload["data"]
    columns = ", ".join(
        f"CAST({column} AS BINARY)" if column in data["binary_columns"] else column
        for column in data["columns"]
    )
    table = data["table"]
    return f"SELECT count(*), sum(crc32(concat_ws('\\t', {columns}))) FROM {table}"  # noqa: S608


def limit_s(run_spec: RunSpec) -> float:
    """What all phases together may take, in seconds."""
    return sum(phase.limit_s for phase in run_spec.phases)


def step_records(result: LoadResult) -> tuple[StepRecord, ...]:
    """The phases as steps, one after another from the load generator's first."""
    records = []
    offset_s = 0.0
    for position, phase in enumerate(result.phases):
        records.append(StepRecord(position, phase.name, offset_s, phase.duration_s, "finished"))
        offset_s += phase.duration_s
    return tuple(records)


def measurements(result: LoadResult, expected: DataChecksum) -> tuple[MeasurementRecord, ...]:
    """What the phases yielded: durations, rows and bytes loaded, the client's own CPU time."""
    found = [
        MeasurementRecord("rows", expected.rows),
        MeasurementRecord("data_bytes", expected.bytes),
    ]
    for phase in result.phases:
        found.append(MeasurementRecord(f"{phase.name}_duration_s", phase.duration_s))
        if phase.generator_wait_s is not None:
            found.append(
                MeasurementRecord(f"{phase.name}_generator_wait_s", phase.generator_wait_s)
            )
    client = result.client
    found += [
        MeasurementRecord("client_user_s", client.user_s, role="client"),
        MeasurementRecord("client_system_s", client.system_s, role="client"),
        MeasurementRecord("client_voluntary_switches", client.voluntary_switches, role="client"),
        MeasurementRecord(
            "client_involuntary_switches", client.involuntary_switches, role="client"
        ),
    ]
    return tuple(found)


def verify(workload: Mapping[str, Any], result: LoadResult, expected: DataChecksum) -> None:
    """Raise TrialFailed unless the table holds exactly the rows that were generated."""
    kinds = {phase["name"]: phase["kind"] for phase in workload["phases"]}
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
