"""Define how a replica is attached to its source, and how its progress is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from millrace.databases.client import DatabaseClient, Session
from millrace.levels import Level

LogFormat = Literal["row", "statement"]
Gtid = Literal["auto", "on", "off"]
Checksums = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class SourceAddress:
    """The address at which a replica reaches its source, and the replica's account there."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class LogEnd:
    """The end of a source's log of changes, which only the family interprets."""

    file: str
    offset: int
    transactions: str | None  # all transactions in the log, if they have global ids


@dataclass(frozen=True)
class LogProgress:
    """The lengths of the source's log, and of the parts that the replica has copied and applied.

    ``reported_lag_s`` is the lag that the replica reports, if any. ``error`` is the reason why it
    stopped or cannot connect, on one line.
    """

    written_bytes: int
    received_bytes: int
    applied_bytes: int
    reported_lag_s: float | None
    error: str | None


class Replication(Protocol):
    """A family's replication by a log of changes.

    Methods that take a client or a session raise TrialFailed or DatabaseError.
    """

    @property
    def shared_options(self) -> tuple[str, ...]:
        """Options of the source that a replica must share to have the same tables."""

    def refusal(self, source: str, replica: str, gtid: Gtid) -> str | None:
        """Return why a replica of one version cannot follow a source; None if it can."""

    def uses_gtids(self, source: str, replica: str, gtid: Gtid) -> bool:
        """Return whether a replica finds its position by global transaction ids."""

    def options(
        self, role: str, version: str, log_format: LogFormat, *, by_gtid: bool
    ) -> Mapping[str, Level]:
        """Return the options that a server needs for its role."""

    def forget_log(self, client: DatabaseClient) -> None:
        """Empty a server's log of changes, and its list of executed transactions."""

    def create_account(self, source: DatabaseClient, address: SourceAddress) -> None:
        """Create the address's account, which may only read the source's log."""

    def attach(self, replica: DatabaseClient, source: SourceAddress, *, by_gtid: bool) -> None:
        """Attach a replica to the source, from the beginning of its log."""

    def start(self, replica: DatabaseClient, what: Literal["receiver", "applier"]) -> None:
        """Start the replica's thread that copies the log, or the threads that apply it."""

    def log_end(self, session: Session) -> LogEnd:
        """Return the current end of the source's log."""

    def wait_applied(self, session: Session, end: LogEnd, limit_s: int, *, by_gtid: bool) -> bool:
        """Wait until the replica has applied the log up to ``end``; return whether it has."""

    def progress(self, source: Session, replica: Session) -> LogProgress:
        """Return the replica's current progress."""

    def begin_heartbeat(self, source: Session) -> None:
        """Create the heartbeat table, with one timestamp, in a database of its own."""

    def beat(self, source: Session, at_s: float) -> None:
        """Write a timestamp into the heartbeat table on the source."""

    def last_beat_s(self, replica: Session) -> float | None:
        """Return the heartbeat's timestamp on the replica; None if it has no table yet."""

    def table_checksums(self, client: DatabaseClient, database: str, limit_s: float) -> Checksums:
        """Return the row count of each table in a database, and the sum of the rows' CRC-32."""
