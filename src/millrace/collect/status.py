"""Collect a server's counters at both marks, its engine's status, and its sessions in between.

Cost: up to three short queries at each mark, a few milliseconds; the engine's status once at each
end; the process list at most once a second, 20 times in all. While the server lists its sessions,
none opens or closes for some microseconds. Two sessions stay open.
"""

from __future__ import annotations

import contextlib

from millrace.collect.model import MarkCollector, Observations, Target
from millrace.collect.process_list import ProcessListPoller

NAME = "status"


def collector(target: Target) -> StatusCollector:
    """Create the collector. Raise Unavailable where the server refuses a session."""
    return StatusCollector(target)


class StatusCollector(MarkCollector[object]):
    """A collector that polls the process list between the marks."""

    def __init__(self, target: Target) -> None:
        monitoring = target.instance.family.monitoring
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(contextlib.closing(target.session()))
            polling = opened.enter_context(contextlib.closing(target.session()))
            self._counters = monitoring.status_counters(session, target.database)
            self._poller = ProcessListPoller(polling, monitoring, target.database)
            opened.callback(self._poller.abandon)
            self._counters.read()  # the first reading would take too long at the mark
            super().__init__(self._counters.read, self._observations, opened.pop_all().close)

    def begin(self) -> None:
        super().begin()
        self._poller.start()

    def end(self) -> None:
        super().end()
        self._poller.finish()

    def _observations(self, before: object, after: object) -> Observations:
        polled = self._poller.polled()
        counted = self._counters.between(before, after, polled.n_queries)
        sections = {
            NAME: counted.deltas,
            "engine_status": polled.engine_status,
            "processlist": polled.process_list,
        }
        return Observations(sections, [*counted.missing, *polled.missing])
