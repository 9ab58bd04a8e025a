"""Define the protocol of collectors, which observe a server at both ends of the measured part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from millrace.databases.base import ServerClient
from millrace.databases.client import Session
from millrace.errors import DatabaseError, TrialFailed, Unavailable
from millrace.loadgen.statement_activity import StatementActivity

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Target:
    """The server of a trial.

    ``pid`` and ``data_dir`` are None where this host does not show them. ``statements`` are the
    test's statements by name, with values as a client sends them. ``limit_s`` limits one query.
    ``statement_activity`` has the statements that clients execute, None where they do not publish
    them. ``connections`` is the number of clients that work at the same time, ``servers`` the
    number of servers that take turns in slices (1: no slices). With ``is_replica``, the threads
    that apply its source's changes take the place of clients' threads. With ``background_clients``,
    some of the connections are of other clients than the measured ones.
    """

    client: ServerClient
    pid: int | None
    data_dir: Path | None
    database: str
    statements: Mapping[str, str]
    limit_s: float
    statement_activity: StatementActivity | None = None
    connections: int = 1
    servers: int = 1
    is_replica: bool = False
    background_clients: bool = False

    def session(self, database: str | None = None) -> Session:
        """Open a session that the caller closes, before the clients work; raise Unavailable.

        A session without a database distinguishes its statements from the workload's.
        """
        try:
            return self.client.connect(database, limit_s=self.limit_s)
        except TrialFailed as error:
            raise Unavailable(error.message, hint=error.hint) from error
        except DatabaseError as error:
            raise Unavailable(f"the server gives no session: {error.message}") from error


@dataclass(frozen=True)
class CollectorResult:
    """The observations of a collector, and the parts that it could not observe.

    ``sections`` are parts of the trial's document, by name: documents of ``model.observations``,
    dataclasses whose fields are the document's keys, or plain values.
    """

    sections: Mapping[str, object]
    missing: Sequence[Unavailable] = ()


class Collector(Protocol):
    """A collector of one trial.

    All methods but ``close`` may raise Unavailable, OSError or a DatabaseError: the trial then goes
    on without the collector.
    """

    def begin(self) -> None:
        """Read the server as the measured part begins, within milliseconds."""

    def end(self) -> None:
        """Read the server after the measured part, while the clients are still connected."""

    def result(self) -> CollectorResult:
        """Return the observations; this may take time."""

    def close(self) -> None:
        """Release everything, whatever happened before; may run twice."""


@runtime_checkable
class ConnectionCollector(Protocol):
    """A collector that also reads the server before the connected clients begin to work."""

    def connected(self) -> None:
        """Read the server while all clients are connected and wait for a moment."""


@runtime_checkable
class RepeatableCollector(Protocol):
    """A collector that adds to its observations when the measured part is repeated."""

    @property
    def wants_more(self) -> bool:
        """Return whether it observed too little and a repetition would help."""


class MarkCollector(Generic[Reading]):
    """A collector that makes the same reading at both marks, and compares the two afterwards."""

    def __init__(
        self,
        read: Callable[[], Reading],
        compare: Callable[[Reading, Reading], CollectorResult],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._read = read
        self._compare = compare
        self._readings: list[Reading] = []
        self.close = close

    def begin(self) -> None:
        self._readings.append(self._read())

    def end(self) -> None:
        self._readings.append(self._read())

    def result(self) -> CollectorResult:
        if len(self._readings) != 2:
            raise Unavailable("the server was not read at both marks")
        return self._compare(*self._readings)
