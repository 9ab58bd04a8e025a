"""The load generator's events, and the result of a run that is built from them.

``docs/load-spec.md`` describes each event. Times are in seconds, sizes in bytes. Each JSON line is
checked once and becomes a record. Unknown keys are ignored: events have further keys for people who
use the load generator without millrace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from pydantic import ValidationError, model_validator

from millrace.model.documents import Count, Excerpt, Items, Number, Whole
from millrace.model.measurements import Part


class Start(Excerpt):
    """The session is open; ``server_version`` is the version that the server reports."""

    type: Literal["start"] = "start"
    server_version: str


MarkName = Literal[
    "phase_started", "connected", "warmup_started", "measure_started", "measure_ended"
]


class Mark(Excerpt):
    """A point in time that a phase has reached; only drive phases have marks after the first."""

    type: Literal["mark"] = "mark"
    phase: str
    mark: MarkName
    t_s: Count


class LoadInterval(Excerpt):
    """A second of a loading phase; rows and bytes count from the phase's beginning."""

    type: Literal["interval"] = "interval"
    phase: str
    t_s: Count
    rows: int
    bytes: int


class DriveInterval(Excerpt):
    """Transactions and statements that ended in one second of a drive phase; latencies in µs."""

    type: Literal["interval"] = "interval"
    kind: Literal["drive"] = "drive"
    phase: str
    part: Literal["warmup", "measure"]
    t_s: Count
    duration_s: Count
    transactions: int
    statements: int
    errors: int
    retries: int
    late: int
    skipped: int
    rows: int
    bytes: int
    p50_us: Count | None
    p99_us: Count | None
    max_us: Count | None


class Slice(NamedTuple):
    """A slice of one server, from its first request to its last response.

    Times are nanoseconds on the clock of ``Mark.t_s``; in a load, since the phase began. If the
    server is slowed down (see ``Slices``), it rests for ``rested_ns`` at the end of the slice.
    """

    side: Whole
    from_ns: Whole
    until_ns: Whole
    transactions: Whole  # successful ones; in a load, the number of rows
    rested_ns: Whole = 0


class PhaseResult(Excerpt):
    """The result of a phase of statements, or of a phase that loaded a named data set.

    With several servers there is an event for each ``side``. ``round_s`` is the time of all servers
    together, and ``slices`` are the slices of this side.
    """

    type: Literal["phase"] = "phase"
    name: str
    kind: Literal["statement", "load_data"]
    duration_s: Count
    affected_rows: int
    warnings: int
    rows_sent: int
    bytes_sent: int
    generator_wait_s: Count | None  # time for which the sender waited for rows
    result: Items[Items[str | None]] | None  # at most 100 rows of the last result set
    side: Whole | None = None
    round_s: Count | None = None
    slices: Items[Slice] | None = None


class LoadedTable(Excerpt):
    """A table that was loaded."""

    rows: int
    bytes: int


class TablesResult(Excerpt):
    """A phase that loaded (with ``tables`` and ``method``), verified or warmed tables."""

    type: Literal["phase"] = "phase"
    name: str
    kind: Literal["load_tables", "verify_tables", "warm_tables"]
    duration_s: Count
    tables: Items[LoadedTable] = ()
    method: str | None = None
    method_reason: str | None = None  # why another than the requested method was used
    warnings: int = 0
    generator_wait_s: Count | None = None


class HistogramResult(Excerpt):
    """Latencies as a base64 HdrHistogram V2 of nanoseconds; ``min_s`` is None if it is empty."""

    encoded: str
    count: int
    sum_s: Count
    min_s: Count | None
    max_s: Count | None


class Record(Excerpt):
    """The results of a kind of transaction or statement; ``response`` is None in a closed loop."""

    name: str
    count: int  # successful ones
    errors: Mapping[str, Number]  # number of failed ones by the server's error code
    retries: int
    rows: int
    affected_rows: int
    bytes_sent: int
    bytes_received: int
    service: HistogramResult
    response: HistogramResult | None


class Pacing(Excerpt):
    """The pacing of a drive phase, and how well an open loop kept its schedule."""

    kind: Literal["closed", "open"]
    rate: Count | None = None
    arrivals: str | None = None
    max_lateness_s: Count | None = None
    scheduled: int = 0  # transactions that arrived in the measured part
    late: int = 0  # transactions that started late
    skipped: int = 0  # transactions that never started


class ClientUsage(Excerpt):
    """The host resources that the load generator itself used."""

    user_s: Count
    system_s: Count
    voluntary_switches: int
    involuntary_switches: int
    max_rss_bytes: int | None = None  # of the whole run; None if the host does not report it
    host_share: Count | None = None  # fraction of all CPUs' time, in a drive phase


class Side(Excerpt):
    """The results of one server in a phase of several servers in slices."""

    transactions: Items[Record]
    statements: Items[Record]
    rollbacks: int
    mean_gap_s: Count  # between a response and the next request, within slices
    before: int = 0  # successful transactions of the warm-up, and their time
    before_s: Count = 0.0


class BackgroundResult(Excerpt):
    """The results of background clients, which repeated another test in the measured part."""

    test: str
    clients: int
    pacing: Pacing
    transactions: Items[Record]
    statements: Items[Record]
    rollbacks: int
    unanswered: int
    error_messages: Mapping[str, str]


class PartRecord(Record):
    """The results of all transactions of a part of a drive phase, and its duration."""

    name: Part
    duration_s: Count


class MaintenanceResult(Excerpt):
    """The results of maintenance statements that ran while clients were driven.

    ``from_s`` and ``until_s`` are times on the clock of marks, ``statements_s`` the duration of
    each statement. The part ``during`` has all transactions that overlapped with the statements.
    """

    from_s: Count
    until_s: Count
    statements_s: Items[Count]
    parts: Items[PartRecord]


class DriveResult(Excerpt):
    """The results of a drive phase, of its measured part."""

    type: Literal["phase"] = "phase"
    kind: Literal["drive"] = "drive"
    name: str
    test: str
    protocol: str
    primary: bool  # whether this drive phase is the run's result, if there are several
    duration_s: Count
    warmup_s: Count
    warmup_steady: bool | None = None  # None if the warm-up did not wait for steady throughput
    connect_s: Count
    partial: bool
    partial_reason: str | None  # why the phase ended early
    clients: int  # per side
    threads: int
    busy_poll: bool
    cpus: Items[int] | None  # None if threads were not pinned
    pacing: Pacing
    mean_gap_s: Count | None  # from a response to the next request, in a closed loop
    transactions_per_client: Mapping[str, int] = {}  # with keys ``least`` and ``most``
    transactions: Items[Record]
    statements: Items[Record]
    sides: Items[Side] | None = None  # in order of their numbers; None for a single server
    slices: Items[Slice] | None = None  # in order of time; None for a single server
    background_clients: Items[BackgroundResult] = ()
    maintenance: MaintenanceResult | None = None
    rollbacks: int = 0
    unanswered: int = 0
    unanswered_s: Count = 0.0  # since the start of the oldest unanswered transaction
    error_messages: Mapping[str, str] = {}
    client: ClientUsage | None  # None in the results of a single side

    @model_validator(mode="after")
    def _slices_are_of_sides(self) -> Self:
        sides, slices = len(self.sides or ()), self.slices or ()
        if any(each.side >= sides or each.from_ns > each.until_ns for each in slices):
            raise ValueError("a slice has an unknown side, or ends before it begins")
        return self

    def figures(self) -> dict[str, Any]:
        """Return the event as plain data, without encoded histograms and slices."""
        latencies = {"service": {"encoded"}, "response": {"encoded"}}
        encoded = {"transactions": {"__all__": latencies}, "statements": {"__all__": latencies}}
        parts = {"sides": {"__all__": encoded}, "background_clients": {"__all__": encoded}}
        bulky: dict[str, Any] = {**encoded, **parts, "slices": True}
        bulky["maintenance"] = {"parts": {"__all__": latencies}}
        return self.model_dump(mode="json", exclude_unset=True, exclude=bulky)


class Error(Excerpt):
    """The error that ended a run; ``code`` and ``sqlstate`` are the server's, if it sent them.

    ``side`` is the number of the failed server, if there are several. ``statement`` is the start of
    the refused statement, None if unknown.
    """

    type: Literal["error"] = "error"
    phase: str
    kind: str
    code: str | None
    sqlstate: str | None
    side: int | None = None
    statement: str | None = None
    message: str


class Summary(Excerpt):
    """The last event of a run that logged in."""

    type: Literal["summary"] = "summary"
    client: ClientUsage


Interval = LoadInterval | DriveInterval
AnyPhaseResult = PhaseResult | TablesResult | DriveResult
Event = Start | Mark | Interval | AnyPhaseResult | Error | Summary

_OF_KINDS: dict[object, dict[object, type[Event]]] = {
    "interval": {None: LoadInterval, "drive": DriveInterval},
    "phase": {
        "drive": DriveResult,
        **dict.fromkeys(("statement", "load_data"), PhaseResult),
        **dict.fromkeys(("load_tables", "verify_tables", "warm_tables"), TablesResult),
    },
}
_OTHERS: dict[object, type[Event]] = {
    "start": Start, "mark": Mark, "error": Error, "summary": Summary,
}  # fmt: skip


def read_event(line: Mapping[str, object]) -> Event:
    """Return the event of one parsed JSON line; raise ValueError if it is not an event."""
    type_, kind = line.get("type"), line.get("kind")
    record = _OF_KINDS[type_].get(kind) if type_ in _OF_KINDS else _OTHERS.get(type_)
    if record is None:
        raise ValueError(f"unknown type {type_!r} or kind {kind!r} of an event")
    try:
        return record.model_validate(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"event {type_!r}, key {key}: {first['msg']}") from error


@dataclass(frozen=True)
class LoadResult:
    """The result of a run; ``client`` is None if the load generator ended without a summary."""

    server_version: str
    phases: tuple[AnyPhaseResult, ...]
    client: ClientUsage | None = None

    @property
    def drives(self) -> tuple[DriveResult, ...]:
        """The phases that drove clients."""
        return tuple(phase for phase in self.phases if isinstance(phase, DriveResult))

    def driven(self) -> DriveResult | None:
        """Return the primary drive phase; None if there was none."""
        return next((drive for drive in self.drives if drive.primary), None)


def result_of(events: Sequence[Event]) -> LoadResult | None:
    """Return the result of a run from its events; None if it did not log in."""
    if not events or not isinstance(start := events[0], Start):
        return None
    phases = tuple(event for event in events if isinstance(event, AnyPhaseResult))
    client = end.client if isinstance(end := events[-1], Summary) else None
    return LoadResult(start.server_version, phases, client)
