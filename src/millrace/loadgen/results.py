"""Results of the load generator, built from its events. Times are seconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Event = dict[str, Any]


@dataclass(frozen=True)
class PhaseResult:
    """A phase of statements, or one that loaded a named data set (``kind`` load_data).

    ``generator_wait_s`` is the time that the sender waited for generated rows, None where it sent
    none; ``result`` holds at most 100 rows of the phase's last result set, None where it had none.
    """

    name: str
    kind: str
    duration_s: float
    affected_rows: int
    warnings: int
    rows_sent: int
    bytes_sent: int
    generator_wait_s: float | None
    result: tuple[tuple[str | None, ...], ...] | None


@dataclass(frozen=True)
class LoadedTable:
    """A table that was loaded; ``checksum`` identifies its rows in any order."""

    name: str
    rows: int
    bytes: int
    checksum: str
    load_s: float
    after_load_s: float


@dataclass(frozen=True)
class TablesResult:
    """A phase that loaded, verified or warmed the tables of a workload.

    ``tables`` and ``method`` apply to loading; ``method_reason`` says why the method is not the
    requested one.
    """

    name: str
    kind: str
    duration_s: float
    tables: tuple[LoadedTable, ...] = ()
    method: str | None = None
    method_reason: str | None = None
    warnings: int = 0
    generator_wait_s: float | None = None


@dataclass(frozen=True)
class HistogramResult:
    """A histogram of latencies: HdrHistogram V2 in base64, of nanoseconds."""

    encoded: str
    count: int
    sum_s: float
    min_s: float
    max_s: float


@dataclass(frozen=True)
class Record:
    """One kind of transaction or statement of the measured part.

    ``count`` is the number that succeeded; ``errors`` counts the others by the server's code;
    ``response`` is None in a closed loop.
    """

    name: str
    count: int
    errors: Mapping[int, int]
    retries: int
    rows: int
    affected_rows: int
    bytes_sent: int
    bytes_received: int
    service: HistogramResult
    response: HistogramResult | None


@dataclass(frozen=True)
class DriveResult:
    """The measured part of a drive phase; ``partial_reason`` says why it ended early.

    Where several phases drive clients, the run's result is its ``primary`` one. ``details`` are the
    phase's other facts as the load generator reports them: clients, threads, pacing, the clients'
    mean gap and CPU.
    """

    name: str
    primary: bool
    duration_s: float
    warmup_s: float
    connect_s: float
    partial: bool
    partial_reason: str | None
    transactions: tuple[Record, ...]
    statements: tuple[Record, ...]
    details: Mapping[str, Any]


@dataclass(frozen=True)
class StatementResult:
    """The statements of one phase.

    ``count`` is the number that succeeded; ``errors`` counts the others by the server's code;
    ``histogram`` is their latency in microseconds, HdrHistogram V2 in base64.
    """

    name: str
    count: int
    errors: Mapping[int, int]
    histogram: str


@dataclass(frozen=True)
class ClientUsage:
    """The resources of the host that the load generator itself used."""

    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    max_rss_bytes: int | None


@dataclass(frozen=True)
class LoadResult:
    """The result of a run.

    ``server_version`` is as the server reports it. ``client`` is None where the program ended
    before it could report its usage.
    """

    load_generator: str
    server_version: str
    phases: tuple[PhaseResult | TablesResult | DriveResult, ...]
    statements: tuple[StatementResult, ...]
    client: ClientUsage | None
    bytes_sent: int
    bytes_received: int

    def driven(self) -> DriveResult | None:
        """Return the primary drive phase, if there was one."""
        drives = (phase for phase in self.phases if isinstance(phase, DriveResult))
        return next((drive for drive in drives if drive.primary), None)


def result_of(events: Sequence[Event]) -> LoadResult:
    """Return the result of a run whose last event is its summary."""
    start, summary = events[0], events[-1]
    return LoadResult(
        load_generator=start["load_generator"],
        server_version=start["server_version"],
        phases=tuple(_phase(event) for event in events if event["type"] == "phase"),
        statements=tuple(_statement(statement) for statement in summary["statements"]),
        client=ClientUsage(**summary["client"]),
        bytes_sent=summary["bytes_sent"],
        bytes_received=summary["bytes_received"],
    )


def partial_result(events: Sequence[Event]) -> LoadResult | None:
    """Return the result of a run that failed; None where it had not begun."""
    if not events or events[0]["type"] != "start":
        return None
    if events[-1]["type"] == "summary":
        return result_of(events)
    return LoadResult(
        load_generator=events[0]["load_generator"],
        server_version=events[0]["server_version"],
        phases=tuple(_phase(event) for event in events if event["type"] == "phase"),
        statements=(),
        client=None,
        bytes_sent=0,
        bytes_received=0,
    )


def _phase(event: Event) -> PhaseResult | TablesResult | DriveResult:
    match event["kind"]:
        case "drive":
            return _drive(event)
        case "load_tables" | "verify_tables" | "warm_tables":
            return _of_tables(event)
    return _of(
        PhaseResult,
        event,
        result=None if event["result"] is None else tuple(tuple(row) for row in event["result"]),
    )


def _of_tables(event: Event) -> TablesResult:
    return TablesResult(
        name=event["name"],
        kind=event["kind"],
        duration_s=event["duration_s"],
        tables=tuple(_of(LoadedTable, table) for table in event.get("tables", ())),
        method=event.get("method"),
        method_reason=event.get("method_reason"),
        warnings=event.get("warnings", 0),
        generator_wait_s=event.get("generator_wait_s"),
    )


def _drive(event: Event) -> DriveResult:
    records = {
        key: tuple(_record(record) for record in event[key])
        for key in ("transactions", "statements")
    }
    told = {"type", "name", "primary", "duration_s", "warmup_s", "connect_s", "partial",
            "partial_reason"}  # fmt: skip
    details = {key: event[key] for key in event if key not in told | records.keys()}
    return _of(DriveResult, event, **records, details=details)


def _record(record: Event) -> Record:
    response = record["response"]
    return _of(
        Record,
        record,
        errors={int(code): count for code, count in record["errors"].items()},
        service=_of(HistogramResult, record["service"]),
        response=None if response is None else _of(HistogramResult, response),
    )


def _statement(statement: Event) -> StatementResult:
    errors = {int(code): count for code, count in statement["errors"].items()}
    return _of(StatementResult, statement, errors=errors)


_Value = TypeVar("_Value")


def _of(kind: type[_Value], event: Mapping[str, Any], **made: Any) -> _Value:
    """Build a value from the event's fields of the same names, except for those in ``made``.

    Other fields of the event are for other readers.
    """
    names = getattr(kind, "__dataclass_fields__")  # noqa: B009 - mypy sees no such attribute
    return kind(**{name: event[name] for name in names if name not in made}, **made)
