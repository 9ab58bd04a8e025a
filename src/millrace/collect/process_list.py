"""Poll a server's process list and its engine's status in a thread of its own.

The engine's status is queried at both ends of the window; the process list after a second, and then
after a second or a quarter of the time that has passed, whichever is longer: 20 times at most, in
two and a half minutes.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace.databases.client import Row, Session
from millrace.databases.monitoring import Monitoring
from millrace.errors import Unavailable

MOST_QUERIES = 20

_SHORTEST_GAP_S = 1.0
_GAP_SHARE = 0.25


@dataclass(frozen=True)
class EngineStatus:
    """The figures in a report of the storage engine, ``t_s`` after the begin."""

    t_s: float
    figures: Mapping[str, int | bool]


@dataclass(frozen=True)
class ProcessList:
    """The server's sessions, ``t_s`` after the begin."""

    t_s: float
    rows: Sequence[Row]


@dataclass(frozen=True)
class Polled:
    """The observations, and the parts that could not be observed."""

    engine_status: list[EngineStatus] = field(default_factory=list)
    process_list: list[ProcessList] = field(default_factory=list)
    missing: list[Unavailable] = field(default_factory=list)


class ProcessListPoller:
    """A poller from ``start`` until ``finish``, which uses ``session`` until its last answer."""

    def __init__(self, session: Session, monitoring: Monitoring, database: str) -> None:
        self._session = session
        self._monitoring = monitoring
        self._database = database
        self._found = Polled()
        self._ended = threading.Event()
        self._ended_at = 0.0
        self._began_at = 0.0
        self._thread = threading.Thread(target=self._poll, name="poller", daemon=True)

    def start(self) -> None:
        """Begin to poll; ``t_s`` counts from here."""
        self._began_at = time.monotonic()
        self._thread.start()

    def finish(self) -> None:
        """Stop polling after one more query of the engine's status; return at once."""
        self._ended_at = time.monotonic()
        self._ended.set()

    def polled(self) -> Polled:
        """Wait for the last answer and return the observations."""
        self._thread.join()
        return self._found

    def abandon(self) -> None:
        """Stop at any point, and wait until the session is no longer in use."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _poll(self) -> None:
        self._query_engine(0.0)
        queries = 0
        while not self._ended.wait(gap_s(time.monotonic() - self._began_at)):
            if queries < MOST_QUERIES and self._query_process_list():
                queries += 1
            else:
                self._ended.wait()
        if self._ended_at:
            self._query_engine(self._ended_at - self._began_at)

    def _query_engine(self, at_s: float) -> None:
        try:
            figures = self._monitoring.engine_status(self._session)
        except Unavailable as lack:
            self._miss(lack)
            return
        if figures:
            self._found.engine_status.append(EngineStatus(at_s, figures))

    def _query_process_list(self) -> bool:
        at_s = time.monotonic() - self._began_at
        try:
            rows = self._monitoring.process_list(self._session, self._database)
        except Unavailable as lack:
            self._miss(lack)
            return False
        self._found.process_list.append(ProcessList(at_s, rows))
        return True

    def _miss(self, lack: Unavailable) -> None:
        if lack.message not in {known.message for known in self._found.missing}:
            self._found.missing.append(lack)


def gap_s(passed_s: float) -> float:
    """Return the seconds from a query at ``passed_s`` to the next one."""
    return max(_SHORTEST_GAP_S, passed_s * _GAP_SHARE)
