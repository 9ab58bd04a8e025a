"""The load generator's events, and the result of a run, which is made of them.

``docs/load-spec.md`` describes each event. Times are seconds, sizes bytes. A record is read from
one JSON line, checked once, and then read by attribute. Events say more than millrace reads, for
people who use the load generator alone, so other keys are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from pydantic import ValidationError, model_validator

from millrace.model.documents import Count, Excerpt, Items, Number, Whole
from millrace.model.measurements import Part


class Start(Excerpt):
    """The session is open; ``server_version`` is as the server reports it."""

    type: Literal["start"] = "start"
    server_version: str


MarkName = Literal[
    "phase_started", "connected", "warmup_started", "measure_started", "measure_ended"
]


class Mark(Excerpt):
    """A point that a phase has reached: any phase its beginning, a drive phase the others too."""

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
    """A second of a drive phase: what ended in it. Latencies are microseconds."""

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
    """A turn of one server, from its first request to its last answer.

    Nanoseconds count from where the drive's marks count, or from the beginning of a load. The last
    ``rested_ns`` of it slow the server down, see Slices.
    """

    side: Whole
    from_ns: Whole
    until_ns: Whole
    transactions: Whole  # that succeeded; of a load, the rows
    rested_ns: Whole = 0


class PhaseResult(Excerpt):
    """A phase of statements, or one that loaded a named data set.

    Several servers have an event each, of their ``side``; ``round_s`` is their time together, and
    ``slices`` are the turns in which that side loaded.
    """

    type: Literal["phase"] = "phase"
    name: str
    kind: Literal["statement", "load_data"]
    duration_s: Count
    affected_rows: int
    warnings: int
    rows_sent: int
    bytes_sent: int
    generator_wait_s: Count | None  # of the sender for rows, if it sent any
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
    method_reason: str | None = None  # for a method other than the requested one
    warnings: int = 0
    generator_wait_s: Count | None = None


class HistogramResult(Excerpt):
    """Latencies as an HdrHistogram V2 in base64, of nanoseconds; no extremes without a count."""

    encoded: str
    count: int
    sum_s: Count
    min_s: Count | None
    max_s: Count | None


class Record(Excerpt):
    """A kind of transaction or statement; ``response`` is None in a closed loop."""

    name: str
    count: int  # of those that succeeded
    errors: Mapping[str, Number]  # of the others, by the server's code
    retries: int
    rows: int
    affected_rows: int
    bytes_sent: int
    bytes_received: int
    service: HistogramResult
    response: HistogramResult | None


class Pacing(Excerpt):
    """The pacing of a drive phase, and the punctuality of an open loop's schedule."""

    kind: Literal["closed", "open"]
    rate: Count | None = None
    arrivals: str | None = None
    max_lateness_s: Count | None = None
    scheduled: int = 0  # that arrived in the measured part
    late: int = 0  # that began late
    skipped: int = 0  # that never began


class ClientUsage(Excerpt):
    """The resources of the host that the load generator itself used."""

    user_s: Count
    system_s: Count
    voluntary_switches: int
    involuntary_switches: int
    max_rss_bytes: int | None = None  # of the whole run, where the host reports it
    host_share: Count | None = None  # of all CPUs, in a drive phase


class Side(Excerpt):
    """The measured part of one of several servers that took turns."""

    transactions: Items[Record]
    statements: Items[Record]
    rollbacks: int
    mean_gap_s: Count  # within its turns
    before: int = 0  # transactions of the warm-up that succeeded, and their time
    before_s: Count = 0.0


class BackgroundResult(Excerpt):
    """The measured part of background clients, who repeated another test."""

    test: str
    clients: int
    pacing: Pacing
    transactions: Items[Record]
    statements: Items[Record]
    rollbacks: int
    unanswered: int
    error_messages: Mapping[str, str]


class PartRecord(Record):
    """All transactions of a part of a drive, and the time of the part."""

    name: Part
    duration_s: Count


class MaintenanceResult(Excerpt):
    """Statements that ran beside the clients; times as those of marks, and of each statement.

    A transaction that was under way at any time of theirs belongs to the part ``during``.
    """

    from_s: Count
    until_s: Count
    statements_s: Items[Count]
    parts: Items[PartRecord]


class DriveResult(Excerpt):
    """The measured part of a drive phase."""

    type: Literal["phase"] = "phase"
    kind: Literal["drive"] = "drive"
    name: str
    test: str
    protocol: str
    primary: bool  # of several drive phases, the run's result
    duration_s: Count
    warmup_s: Count
    warmup_steady: bool | None = None  # None where the warm-up did not wait for steadiness
    connect_s: Count
    partial: bool
    partial_reason: str | None  # why it ended early
    clients: int  # of each side
    threads: int
    busy_poll: bool
    cpus: Items[int] | None  # None where threads were not pinned
    pacing: Pacing
    mean_gap_s: Count | None  # from an answer to the next request, in a closed loop
    transactions_per_client: Mapping[str, int] = {}  # the ``least`` and the ``most``
    transactions: Items[Record]
    statements: Items[Record]
    sides: Items[Side] | None = None  # by their numbers; None where one server was driven
    slices: Items[Slice] | None = None  # of whole groups, in their order; None as above
    background_clients: Items[BackgroundResult] = ()
    maintenance: MaintenanceResult | None = None
    rollbacks: int = 0
    unanswered: int = 0
    unanswered_s: Count = 0.0  # from the begin of the oldest transaction among them
    error_messages: Mapping[str, str] = {}
    client: ClientUsage | None  # None in the part of one side

    @model_validator(mode="after")
    def _slices_are_of_sides(self) -> Self:
        sides, slices = len(self.sides or ()), self.slices or ()
        if any(each.side >= sides or each.from_ns > each.until_ns for each in slices):
            raise ValueError("a slice is of no side, or ends before it begins")
        return self

    def figures(self) -> dict[str, Any]:
        """Return the event as plain data without the encoded histograms and without slices."""
        latencies = {"service": {"encoded"}, "response": {"encoded"}}
        encoded = {"transactions": {"__all__": latencies}, "statements": {"__all__": latencies}}
        parts = {"sides": {"__all__": encoded}, "background_clients": {"__all__": encoded}}
        bulky: dict[str, Any] = {**encoded, **parts, "slices": True}
        bulky["maintenance"] = {"parts": {"__all__": latencies}}
        return self.model_dump(mode="json", exclude_unset=True, exclude=bulky)


class Error(Excerpt):
    """The end of a run that failed; ``code`` and ``sqlstate`` are the server's own, if any.

    ``side`` is the number of the server, of several, that it is of; ``statement`` the beginning of
    the one that the server refused, where that is known.
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
    """The last event of a run that connected."""

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
    """Return the event of one JSON line; raise ValueError for a line that is none."""
    type_, kind = line.get("type"), line.get("kind")
    record = _OF_KINDS[type_].get(kind) if type_ in _OF_KINDS else _OTHERS.get(type_)
    if record is None:
        raise ValueError(f"an event of unknown type {type_!r} and kind {kind!r}")
    try:
        return record.model_validate(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"an event {type_!r} with a wrong key {key}: {first['msg']}") from error


@dataclass(frozen=True)
class LoadResult:
    """The result of a run; ``client`` is None if the program ended before it reported usage."""

    server_version: str
    phases: tuple[AnyPhaseResult, ...]
    client: ClientUsage | None = None

    @property
    def drives(self) -> tuple[DriveResult, ...]:
        """The phases that drove clients."""
        return tuple(phase for phase in self.phases if isinstance(phase, DriveResult))

    def driven(self) -> DriveResult | None:
        """Return the primary drive phase, if there was one."""
        return next((drive for drive in self.drives if drive.primary), None)


def result_of(events: Sequence[Event]) -> LoadResult | None:
    """Return the result of a run's events; None where it had not begun."""
    if not events or not isinstance(start := events[0], Start):
        return None
    phases = tuple(event for event in events if isinstance(event, AnyPhaseResult))
    client = end.client if isinstance(end := events[-1], Summary) else None
    return LoadResult(start.server_version, phases, client)
