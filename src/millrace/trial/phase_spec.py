"""Convert a workload's phases to the load generator's specification."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from millrace.databases.base import LoadDialect
from millrace.loadgen import spec
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.time_limits import phase_limit_s, warms_until_steady, warmup_s
from millrace.workloads.definition import DataSet
from millrace.workloads.phases import Phase, Statements
from millrace.workloads.schema_factors import cpu_numbers

# A thread ends with its connection, and its figures with it; collectors read them after the end of
# the measured part.
_LINGER_S = 0.3


def load_spec(
    phases: Iterable[Phase],
    workload: ResolvedWorkload,
    dialect: LoadDialect,
    connection: spec.Connection,
    data_file: Path | None = None,
) -> spec.LoadSpec:
    """Return the specification of some phases of a trial."""
    return spec.LoadSpec(
        connection=connection,
        session=dialect.session,
        phases=tuple(_phase(phase, workload, dialect, data_file) for phase in phases),
        tables=workload.tables,
        error_hints=dialect.error_hints,
    )


def ageing_spec(
    prior: Iterable[ResolvedWorkload], dialect: LoadDialect, connection: spec.Connection
) -> spec.LoadSpec:
    """Return the specification of the tests that come before the measured one: a phase each."""
    drives = []
    for workload in prior:
        phase = workload.drive_phase
        driven = _drive(phase, workload, dialect, phase_limit_s(phase, workload))
        drives.append(replace(driven, name=driven.test, linger_s=0.0))
    drives[-1] = replace(drives[-1], primary=True)  # one of several has to be
    return replace(load_spec((), workload, dialect, connection), phases=tuple(drives))


def _phase(
    phase: Phase, workload: ResolvedWorkload, dialect: LoadDialect, data_file: Path | None
) -> spec.SpecPhase:
    within_s = phase_limit_s(phase, workload)
    match phase.kind:
        case "load_data":
            data = _data(workload)
            source = (
                spec.GeneratedSource(data.set, workload.rows, int(workload.values["data_seed"]))
                if data_file is None
                else spec.ServerFile(data_file)
            )
            return spec.LoadData(phase.name, data.table, tuple(data.columns), source, within_s)
        case "count":
            count = dialect.count(_data(workload).table)
            return spec.Statement(phase.name, (count,), within_s)
        case "checksum":
            data = _data(workload)
            checksum = dialect.checksum(data.table, data.columns, data.binary_columns)
            return spec.Statement(phase.name, (checksum,), within_s)
        case "sql":
            return spec.Statement(phase.name, _statements(phase, workload), within_s)
        case "drive":
            return _drive(phase, workload, dialect, within_s)
        case _:
            return _of_tables(phase, workload, within_s)


def _of_tables(phase: Phase, workload: ResolvedWorkload, within_s: float) -> spec.SpecPhase:
    match phase.kind:
        case "load_tables":
            load = workload.load_settings
            # LOAD DATA is one statement, which locks nothing in between.
            takes_locks = not load.load_chunk_rows and load.load_method != "local"
            return spec.LoadTables(
                phase.name,
                within_s,
                load.load_method,
                load.load_threads,
                load.load_chunk_rows,
                lock_tables=load.lock_tables and takes_locks,
                linger_s=_LINGER_S if phase in workload.measuring_phases else 0.0,
            )
        case "verify_tables":
            return spec.VerifyTables(phase.name, within_s)
        case _:
            return spec.WarmTables(phase.name, within_s)


def _data(workload: ResolvedWorkload) -> DataSet:
    assert workload.checked.data is not None  # checked: only workloads with data have such phases
    return workload.checked.data


def _drive(
    phase: Phase, workload: ResolvedWorkload, dialect: LoadDialect, limit_s: float
) -> spec.Drive:
    settings = workload.client_settings
    return spec.Drive(
        name=phase.name,
        test=settings.test,
        clients=settings.clients,
        limit_s=limit_s,
        protocol=settings.protocol,
        pacing=_pacing(workload),
        warmup_s=warmup_s(workload),
        until_steady=warms_until_steady(workload),
        time_s=None if settings.operations else settings.time_s,
        transactions=settings.operations or None,
        threads=settings.threads,
        retry=dialect.retried_errors,
        cpus=cpu_numbers(settings.client_cpus),
        linger_s=_LINGER_S,
        maintenance=_maintenance(phase, workload),
    )


def _maintenance(phase: Phase, workload: ResolvedWorkload) -> spec.Maintenance | None:
    """Return the statements that run in the middle of the clients' time, if any."""
    if phase.maintenance is None:
        return None
    half_s = workload.client_settings.time_s / 2
    return spec.Maintenance(half_s, _statements(phase.maintenance, workload))


def _statements(sent: Statements, workload: ResolvedWorkload) -> tuple[str, ...]:
    return sent.statements(workload.values, workload.checked.tables)


def _pacing(workload: ResolvedWorkload) -> spec.Closed | spec.Open:
    settings = workload.client_settings
    if not settings.rate:
        return spec.Closed()
    return spec.Open(settings.rate, settings.arrivals, settings.max_lateness_s or None)
