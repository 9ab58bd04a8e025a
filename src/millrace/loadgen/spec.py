"""The specification of a run of the load generator, and its form as JSON (version 2).

The program checks the specification itself and names the key of an error; these types prevent
errors. Sizes and times have their unit in the name; a limit applies to one phase.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from millrace.levels import Level
from millrace.tls import TlsMode

VERSION = 2


@dataclass(frozen=True)
class ConnectionTls:
    """The encryption of a connection.

    ``required`` verifies nothing, ``verify-ca`` the certificate against ``ca`` (a PEM file), and
    ``verify-identity`` the host's name, too. Without ``ca``, the authorities that this host trusts
    apply.
    """

    mode: TlsMode
    ca: Path | None = None


@dataclass(frozen=True)
class Connection:
    """The address and account of a server: either ``socket``, or ``host`` and ``port``.

    Without ``tls`` the load generator verifies hosts other than this one. ``allow_unverified``
    sends the password itself, not only a proof, to a server that asks for it and whose identity no
    TLS verified.
    """

    user: str
    password: str = field(repr=False)
    database: str | None = None
    socket: Path | None = None
    host: str | None = None
    port: int | None = None
    tls: ConnectionTls | None = None
    allow_unverified: bool = False

    def __post_init__(self) -> None:
        by_socket = self.socket is not None and self.host is None and self.port is None
        by_tcp = self.socket is None and self.host is not None and self.port is not None
        if not (by_socket or by_tcp):
            raise ValueError("a connection needs either a socket, or a host and a port")


@dataclass(frozen=True)
class GeneratedSource:
    """Rows that the load generator generates while it sends them (LOAD DATA LOCAL)."""

    set: str
    rows: int
    seed: int


@dataclass(frozen=True)
class ServerFile:
    """A file that the server reads itself (LOAD DATA)."""

    path: Path


@dataclass(frozen=True)
class LoadData:
    """A phase that loads rows into ``columns`` of ``table``.

    With ``slice_rows``, the servers of the specification get that many rows at a time, in turns.
    """

    name: str
    table: str
    columns: Sequence[str]
    source: GeneratedSource | ServerFile
    limit_s: float
    slice_rows: int | None = None  # where the specification has servers ``against``


@dataclass(frozen=True)
class Statement:
    """A phase that runs statements, one after the other."""

    name: str
    sql: Sequence[str]
    limit_s: float


@dataclass(frozen=True)
class LoadTables:
    """A phase that creates and fills every table of the workload, then runs its ``after_load``."""

    name: str
    limit_s: float
    method: Literal["auto", "local", "multi_row", "single_row"] = "auto"
    threads: int = 0  # connections at a time; 0 leaves it to the program
    chunk_rows: int = 0  # that one of them fills at a time; 0 are all of a table
    lock_tables: bool = False
    linger_s: float = 0.0  # for which they stay open after the phase


@dataclass(frozen=True)
class VerifyTables:
    """A phase that compares every table's rows and checksum with the generated ones."""

    name: str
    limit_s: float


@dataclass(frozen=True)
class WarmTables:
    """A phase that runs every table's ``warm`` statements."""

    name: str
    limit_s: float


@dataclass(frozen=True)
class Closed:
    """A closed loop: each client sends its next request when the last one is answered."""


@dataclass(frozen=True)
class Open:
    """An open loop: ``rate`` transactions begin per second in all, at any speed of the server."""

    rate: float
    arrivals: Literal["poisson", "constant"]
    max_lateness_s: float | None = None  # later transactions are skipped


@dataclass(frozen=True)
class Slices:
    """The turns of several servers: a slice ends once it has reached both minimums.

    After ``at_most_s`` it ends even if its transactions are fewer.
    ``slowdowns`` are the shares of a slice's time for which each server rests after it; empty for
    no slowdown.
    """

    at_least_s: float
    at_most_s: float
    transactions: int  # that ended, of all clients of the server
    slowdowns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Maintenance:
    """Statements that run beside the clients, ``after_s`` from the begin of the measured part."""

    after_s: float
    sql: Sequence[str]


@dataclass(frozen=True)
class Drive:
    """A phase in which ``clients`` repeat a test's transactions.

    With ``slices``, each server of the specification has that many clients, and one server is
    driven at a time, in a closed loop for a time.
    """

    name: str
    test: str
    clients: int
    limit_s: float
    protocol: Literal["prepared", "text"] = "prepared"
    pacing: Closed | Open = Closed()
    warmup_s: float = 0.0  # unmeasured
    until_steady: bool = False  # the warm-up ends when throughput is steady, or after warmup_s
    time_s: float | None = None  # of the measured part
    transactions: int | None = None  # to execute in all, without ``time_s``
    threads: int = 0
    retry: Sequence[str] = ()  # error codes that restart a transaction
    busy_poll: bool = False
    cpus: Sequence[int] | None = None
    pings: int = 0  # empty requests with which each client begins
    linger_s: float = 0.0  # for which clients stay connected after ``measure_ended``
    statement_activity: Path | None = None  # in which clients publish their statements
    primary: bool = False  # of several drive phases, one
    maintenance: Maintenance | None = None  # its time comes on top of ``time_s``
    slices: Slices | None = None  # where the specification has servers ``against``

    def __post_init__(self) -> None:
        if (self.time_s is None) == (self.transactions is None):
            raise ValueError("clients are driven for a time or for a number of transactions")


SpecPhase = LoadData | Statement | LoadTables | VerifyTables | WarmTables | Drive


@dataclass(frozen=True)
class Tables:
    """The workload of phases on tables: tables, generators, statements, tests, and values."""

    workload: Mapping[str, object]  # with tables, generators, statements and tests
    defaults: Mapping[str, object]
    values: Mapping[str, Level]  # override a test's own, and these the ``defaults``
    seed: int


@dataclass(frozen=True)
class LoadSpec:
    """One run: ``session`` is SQL for every new session, then the phases in order.

    Phases that drive or load alternate between the server of ``connection`` (side 0) and those
    ``against`` it (sides 1 and so on, at most 7); a run with such servers has other phases of
    statements alone, which run on each.
    """

    connection: Connection
    session: Sequence[str]
    phases: Sequence[SpecPhase]
    tables: Tables | None = None
    error_hints: Mapping[str, str] = field(default_factory=dict)  # by code; not sent
    against: tuple[Connection, ...] = ()

    def __post_init__(self) -> None:
        for phase in self.phases:
            match phase:
                case Drive(slices=slices) | LoadData(slice_rows=slices):
                    turns = slices is not None
                case Statement():
                    continue
                case _:
                    turns = False
            if turns != bool(self.against):
                raise ValueError("several servers need phases in slices, and a single one has none")

    def to_json(self) -> str:
        """Return the specification as JSON for the load generator, with the passwords."""
        plain: dict[str, Any] = {
            "version": VERSION,
            "connection": _connection(self.connection),
            "session": self.session,
        }
        if self.against:
            plain["against"] = [_connection(each) for each in self.against]
        if self.tables is not None:
            plain |= vars(self.tables)
        plain["phases"] = [_phase(phase) for phase in self.phases]
        return json.dumps(plain, default=os.fspath)


def _connection(connection: Connection) -> dict[str, Any]:
    return {key: value for key, value in asdict(connection).items() if value is not None}


_KINDS: dict[type[SpecPhase], str] = {
    LoadData: "load_data", Statement: "statement", LoadTables: "load_tables",
    VerifyTables: "verify_tables", WarmTables: "warm_tables", Drive: "drive",
}  # fmt: skip


def _phase(phase: SpecPhase) -> dict[str, Any]:
    plain = {"kind": _KINDS[type(phase)], **asdict(phase)}
    match phase:
        case LoadData(source=source):
            if (slice_rows := plain.pop("slice_rows")) is not None:
                plain["slices"] = {"rows": slice_rows}
            if isinstance(source, ServerFile):
                plain["source"] = {"server_file": source.path}
            else:
                plain["source"] = {"generate": plain["source"]}
        case Drive():
            time_s, transactions = plain.pop("time_s"), plain.pop("transactions")
            warmup_s, until_steady = plain.pop("warmup_s"), plain.pop("until_steady")
            pacing = "open" if isinstance(phase.pacing, Open) else "closed"
            plain["pacing"] = {"kind": pacing, **plain["pacing"]}
            plain["end"] = {"kind": "time", "seconds": time_s}
            if transactions is not None:
                plain["end"] = {"kind": "operations", "transactions": transactions}
            plain["warmup"] = {"kind": "time", "seconds": warmup_s}
            if until_steady:
                plain["warmup"] = {"kind": "steady", "limit_s": warmup_s}
            for key in ("slices", "maintenance"):
                if plain[key] is None:
                    del plain[key]
    return plain
