"""Collect a server's own totals between the marks: counters, waits, statements and stages.

``status`` reads the counters and the engine's status, and polls the process list; ``waits`` reads
totals of waits, statements and stages. Reading takes time, so the totals miss the first
milliseconds: a time for one statement divides a row's total by its own count, not by the clients'.

The engine's status is queried at both ends of the window; the process list after a second, and then
after a second or a quarter of the time that has passed, whichever is longer: 20 times at most, in
two and a half minutes.

The counters are those of the workload: what millrace's own sessions caused is subtracted.

Cost: up to eight short queries at each mark, and one in each session of millrace, a few
milliseconds in all; the engine's status at each end; the process list, for which sessions wait some
microseconds, 20 times at most. Three sessions stay open. No instrument of the server is switched
on.
"""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.databases.client import Row, Session
from millrace.databases.monitoring import Monitoring
from millrace.errors import Unavailable

MOST_QUERIES = 20

_SHORTEST_GAP_S = 1.0
_GAP_SHARE = 0.25

STATUS, WAITS = "status", "waits"


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


def waits(target: Target) -> MarkCollector[object]:
    """Create the collector ``waits``. Raise Unavailable where the server refuses a session."""
    with contextlib.ExitStack() as opened:
        session = opened.enter_context(contextlib.closing(target.session()))
        statistics = target.client.family.monitoring.wait_statistics(session, target.database)
        statistics.read()  # the first reading would take too long at the mark

        def compare(before: object, after: object) -> CollectorResult:
            found = statistics.between(before, after)
            sections = {WAITS: found.waits, "digests": found.digests, "stages": found.stages}
            return CollectorResult(sections, found.missing)

        return MarkCollector(statistics.read, compare, opened.pop_all().close)


class StatusCollector(MarkCollector[object]):
    """The collector ``status``, which polls the process list between the marks."""

    def __init__(self, target: Target) -> None:
        """Open the sessions. Raise Unavailable where the server refuses one."""
        monitoring = target.client.family.monitoring
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(contextlib.closing(target.session()))
            polling = opened.enter_context(contextlib.closing(target.session()))
            self._counters = monitoring.status_counters(session, target.database)
            self._session, self._client = session, target.client
            self._poller = ProcessListPoller(polling, monitoring, target.database)
            opened.callback(self._poller.abandon)
            # The first reading would take too long at the mark.
            self._counters.read(self._other_sessions())
            super().__init__(self._read_counters, self._observations, opened.pop_all().close)

    def _other_sessions(self) -> Sequence[Session]:
        return [each for each in self._client.open_sessions() if each is not self._session]

    def _read_counters(self) -> object:
        return self._counters.read(self._other_sessions(), at_end=bool(self._readings))

    def begin(self) -> None:
        super().begin()
        self._poller.start()

    def end(self) -> None:
        super().end()
        self._poller.finish()

    def _observations(self, before: object, after: object) -> CollectorResult:
        polled = self._poller.polled()
        counted = self._counters.between(before, after)
        sections = {
            STATUS: counted.deltas,
            "engine_status": polled.engine_status,
            "processlist": polled.process_list,
        }
        return CollectorResult(sections, [*counted.missing, *polled.missing])
