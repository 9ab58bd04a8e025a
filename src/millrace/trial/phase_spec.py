"""A workload's phases made into the load generator's spec."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from millrace.loadgen import spec as load
from millrace.trial.cpu_idle import Control
from millrace.trial.resolved_workload import DataFile, ResolvedWorkload
from millrace.trial.thread_placement import PINGS
from millrace.trial.time_limits import phase_limit_s, warms_until_steady, warmup_s
from millrace.workloads.cpu_numbers import cpu_numbers
from millrace.workloads.definition import DataSet, Phase

UTC_SESSION = ("SET time_zone = '+00:00'",)

# A deadlock, a lock wait that took too long, a row changed since it was read: sysbench's too.
_RETRIED_ERRORS = (1213, 1205, 1020)

# Whoever reads the figures of the server's threads at the end of the measured part must still find
# them: a thread ends with its connection, and takes its figures with it.
_LINGER_S = 0.3


def spec(
    phases: Iterable[Phase],
    work: ResolvedWorkload,
    connection: load.Connection,
    data_file: DataFile | None = None,
    control: Control | None = None,
    *,
    board: Path | None = None,
) -> load.RunSpec:
    """The load generator's spec for some phases of a trial; ``control`` is for driven clients, and
    so is ``board``, where they show their statements."""
    return load.RunSpec(
        connection=connection,
        session=UTC_SESSION,
        phases=tuple(_phase(phase, work, data_file, control, board) for phase in phases),
        tables=work.tables,
    )


def _phase(
    phase: Phase,
    work: ResolvedWorkload,
    data_file: DataFile | None,
    control: Control | None,
    board: Path | None,
) -> load.Phase:
    within_s = phase_limit_s(phase, work)
    match phase.kind:
        case "load_data":
            data = _data(work)
            source = (
                load.GeneratedSource(data.set, work.rows, int(work.values["data_seed"]))
                if data_file is None
                else load.ServerFile(data_file.path)
            )
            return load.LoadData(phase.name, data.table, tuple(data.columns), source, within_s)
        case "count":
            return load.Statement(phase.name, (count_sql(_data(work)),), within_s)
        case "checksum":
            return load.Statement(phase.name, (checksum_sql(_data(work)),), within_s)
        case "sql":
            return load.Statement(phase.name, phase.statements(work.values), within_s)
        case "drive":
            return _drive(phase, work, within_s, control, board)
        case _:
            return _of_tables(phase, work, within_s)


def _of_tables(phase: Phase, work: ResolvedWorkload, within_s: float) -> load.Phase:
    match phase.kind:
        case "load_tables":
            method = work.of_tables["load_method"]
            # LOAD DATA is one statement, which locks nothing in between.
            lock_tables = bool(work.of_tables.get("lock_tables")) and method != "local"
            threads = int(work.of_tables["load_threads"])
            linger_s = _LINGER_S if phase in work.measuring else 0.0
            return load.LoadTables(phase.name, within_s, method, threads, lock_tables, linger_s)
        case "verify_tables":
            return load.VerifyTables(phase.name, within_s)
        case _:
            return load.WarmTables(phase.name, within_s)


def _data(work: ResolvedWorkload) -> DataSet:
    assert work.workload.data is not None  # checked: only workloads with data have such phases
    return work.workload.data


def _drive(
    phase: Phase,
    work: ResolvedWorkload,
    limit_s: float,
    control: Control | None,
    board: Path | None,
) -> load.Drive:
    values = work.values
    operations = int(values["operations"])
    asked_cpus = cpu_numbers(str(values["client_cpus"]))
    return load.Drive(
        name=phase.name,
        test=str(values["test"]),
        clients=int(values["clients"]),
        limit_s=limit_s,
        protocol=values["protocol"],
        pacing=_pacing(work),
        warmup_s=warmup_s(work),
        until_steady=warms_until_steady(work),
        time_s=None if operations else float(values["time_s"]),
        transactions=operations or None,
        threads=int(values["threads"]),
        retry=_RETRIED_ERRORS,
        busy_poll=control is not None and control.busy_poll,
        cpus=asked_cpus or _cpus(control),
        pings=PINGS if control is not None and control.shared_cpu is not None else 0,
        linger_s=_LINGER_S,
        board=board,
    )


def _cpus(control: Control | None) -> tuple[int, ...] | None:
    if control is None:
        return None
    return control.client_cpus if control.shared_cpu is None else (control.shared_cpu,)


def _pacing(work: ResolvedWorkload) -> load.Closed | load.Open:
    values = work.values
    rate = float(values["rate"])
    if not rate:
        return load.Closed()
    return load.Open(rate, values["arrivals"], float(values["late_limit_s"]) or None)


def count_sql(data: DataSet) -> str:
    return f"SELECT count(*) FROM {data.table}"  # noqa: S608 - our own table name


def checksum_sql(data: DataSet) -> str:
    """An order-independent checksum of the columns, the same in every family and version.

    CHECKSUM TABLE is not portable; the sum of the rows' CRC32 is, when numbers and times are
    compared as text in a UTC session and text as bytes, whatever the table's character set.
    """
    columns = ", ".join(
        f"CAST({column} AS BINARY)" if column in data.binary_columns else column
        for column in data.columns
    )
    return f"SELECT count(*), sum(crc32(concat_ws('\\t', {columns}))) FROM {data.table}"  # noqa: S608
