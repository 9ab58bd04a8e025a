"""Define how a replica is attached to its source, and how far it has come."""

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
    """The address at which a replica reaches its source, and an account for it alone."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class LogEnd:
    """The end of a source's log of changes, which only the family interprets."""

    file: str
    offset: int
    transactions: str | None  # all that the log has, where they have global ids


@dataclass(frozen=True)
class LogProgress:
    """The length of the source's log, and of the parts that the replica has copied and applied.

    ``reported_lag_s`` is the lag by the replica's own account, if it gives one. ``error`` is the
    reason why it stopped, or why it cannot connect, on one line.
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
        """The options of a source that its replica must share to have the same tables."""

    def refusal(self, source: str, replica: str, gtid: Gtid) -> str | None:
        """Return why a replica of one version cannot follow a source; None where it can."""

    def uses_gtids(self, source: str, replica: str, gtid: Gtid) -> bool:
        """Return whether a replica finds its place by global ids of transactions."""

    def options(
        self, role: str, version: str, log_format: LogFormat, *, by_gtid: bool
    ) -> Mapping[str, Level]:
        """Return the options without which a server cannot play its role."""

    def forget_log(self, client: DatabaseClient) -> None:
        """Empty a server's log of changes, and forget which transactions it has executed."""

    def create_account(self, source: DatabaseClient, address: SourceAddress) -> None:
        """Create the account of an address, which may only read the source's log."""

    def attach(self, replica: DatabaseClient, source: SourceAddress, *, by_gtid: bool) -> None:
        """Tell a replica to follow the source from the beginning of its log."""

    def start(self, replica: DatabaseClient, what: Literal["receiver", "applier"]) -> None:
        """Start the replica's thread that copies the log, or those that apply it."""

    def log_end(self, session: Session) -> LogEnd:
        """Return the present end of the source's log."""

    def wait_applied(self, session: Session, end: LogEnd, limit_s: int, *, by_gtid: bool) -> bool:
        """Wait until the replica has applied the log up to ``end``; return whether it has."""

    def progress(self, source: Session, replica: Session) -> LogProgress:
        """Return how far the replica has come now."""

    def begin_heartbeat(self, source: Session) -> None:
        """Create a table that holds one time, in a database of its own."""

    def beat(self, source: Session, at_s: float) -> None:
        """Write a time into this table on the source."""

    def last_beat_s(self, replica: Session) -> float | None:
        """Return the time that the table holds on the replica; None where it has no table yet."""

    def table_checksums(self, client: DatabaseClient, database: str, limit_s: float) -> Checksums:
        """Return the rows of each table of a database and the sum of their CRC-32."""
