"""Collect a server's own totals between the marks: counters, waits, statements and stages.

``status`` reads the counters and the engine's status, and polls the process list; ``waits`` reads
totals of waits, statements and stages. Reading takes time, so the totals miss the first
milliseconds: a time for one statement divides a row's total by its own count, not by the clients'.

The counters are those of the workload: what millrace's own sessions caused is subtracted.

Cost: up to eight short queries at each mark, and one in each session of millrace, a few
milliseconds in all; the engine's status at each end; the process list, for which sessions wait some
microseconds, 20 times at most. Three sessions stay open. No instrument of the server is switched
on.
"""

import contextlib
from collections.abc import Sequence

from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.collect.process_list import ProcessListPoller
from millrace.databases.client import Session

STATUS, WAITS = "status", "waits"


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
