"""The specification of a run of the load generator, and its JSON form (version 2).

The load generator checks the specification and names the key of each mistake. Names of sizes and
times end in their unit; a ``limit_s`` applies to one phase.
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

    ``required`` verifies nothing. ``verify-ca`` verifies the server's certificate against ``ca`` (a
    PEM file), and ``verify-identity`` also its host name. Without ``ca``, the certificate
    authorities that this host trusts are used.
    """

    mode: TlsMode
    ca: Path | None = None


@dataclass(frozen=True)
class Connection:
    """The address and account of a server: either ``socket``, or ``host`` and ``port``.

    Without ``tls``, the load generator verifies the identity of remote hosts. With
    ``allow_unverified`` it also sends a clear-text password, if the server requests one, to a
    server whose identity TLS did not verify.
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

    With ``slice_rows``, the servers take turns, with this number of rows in each slice.
    """

    name: str
    table: str
    columns: Sequence[str]
    source: GeneratedSource | ServerFile
    limit_s: float
    slice_rows: int | None = None  # required with ``LoadSpec.against``


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
    threads: int = 0  # number of connections; 0: the load generator chooses
    chunk_rows: int = 0  # rows that a connection loads at a time; 0: a whole table
    lock_tables: bool = False
    linger_s: float = 0.0  # time for which connections stay open after the phase


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
    """A closed loop: each client sends its next request after the response to the last one."""


@dataclass(frozen=True)
class Open:
    """An open loop: ``rate`` transactions arrive per second, whatever the server's speed."""

    rate: float
    arrivals: Literal["poisson", "constant"]
    max_lateness_s: float | None = None  # later transactions are skipped


@dataclass(frozen=True)
class Slices:
    """The slices of several servers.

    A slice ends after ``at_least_s`` and ``transactions``, but at the latest after ``at_most_s``.
    ``slowdowns`` has for each server the fraction of a slice's time for which it rests afterwards;
    empty without slowdowns.
    """

    at_least_s: float
    at_most_s: float
    transactions: int  # completed by all clients of the server
    slowdowns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Maintenance:
    """Statements that run while clients are driven, ``after_s`` after the measured part began."""

    after_s: float
    sql: Sequence[str]


@dataclass(frozen=True)
class Drive:
    """A phase in which ``clients`` repeat a test's transactions.

    With ``slices``, each server has that number of clients, and one server is driven at a time, in
    a closed loop that ends by time.
    """

    name: str
    test: str
    clients: int
    limit_s: float
    protocol: Literal["prepared", "text"] = "prepared"
    pacing: Closed | Open = Closed()
    warmup_s: float = 0.0  # unmeasured
    until_steady: bool = False  # the warm-up ends when throughput is steady, or after warmup_s
    time_s: float | None = None  # duration of the measured part
    transactions: int | None = None  # total number to execute, instead of ``time_s``
    threads: int = 0
    retry: Sequence[str] = ()  # error codes that restart a transaction
    busy_poll: bool = False
    cpus: Sequence[int] | None = None
    pings: int = 0  # empty requests that each client sends first
    linger_s: float = 0.0  # time for which clients stay connected after ``measure_ended``
    statement_activity: Path | None = None  # file for the clients' current statements
    primary: bool = False  # whether this is the run's result, if there are several drive phases
    maintenance: Maintenance | None = None  # its time is added to ``time_s``
    slices: Slices | None = None  # required with ``LoadSpec.against``

    def __post_init__(self) -> None:
        if (self.time_s is None) == (self.transactions is None):
            raise ValueError("a drive phase needs either time_s or transactions")


SpecPhase = LoadData | Statement | LoadTables | VerifyTables | WarmTables | Drive


@dataclass(frozen=True)
class Tables:
    """The workload of phases that use tables, and its values."""

    workload: Mapping[str, object]  # with tables, generators, statements and tests
    defaults: Mapping[str, object]
    values: Mapping[str, Level]  # override a test's values, which override ``defaults``
    seed: int


@dataclass(frozen=True)
class LoadSpec:
    """A run: ``session`` is SQL for every new session, ``phases`` are executed in order.

    With servers in ``against`` (sides 1 to 7 at most), phases that drive or load alternate between
    these and the server of ``connection`` (side 0). All other phases must be statements; they run
    on each server.
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
                raise ValueError("phases need slices with several servers, and none with one")

    def to_json(self) -> str:
        """Return the specification as JSON, including passwords."""
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
