"""Collect a server's counters and engine status at both marks, and its sessions in between."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from millrace.collect.model import Collector, Target
from millrace.collect.process_list import Watcher
from millrace.collect.sessions import missing, session_of

NAME = "status"
COST = (
    "Three short questions at each mark (SHOW GLOBAL STATUS, the engine's metrics and what it "
    "compressed, a few milliseconds), SHOW ENGINE INNODB STATUS once at each end, and the process "
    "list once a second at most, 20 times in all; each look at the process list keeps sessions "
    "from being opened and closed for some microseconds. Two sessions stay open."
)


def collector(target: Target) -> Collector:
    """Create the collector of the server's counters.

    Raise Unavailable where the server refuses a session.
    """
    return _StatusObserver(target)


class _StatusObserver:
    def __init__(self, target: Target) -> None:
        monitoring = target.instance.family.monitoring
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(contextlib.closing(session_of(target)))
            watching = opened.enter_context(contextlib.closing(session_of(target)))
            self._counters = monitoring.status_counters(session, target.database)
            self._watcher = Watcher(watching, monitoring, target.database)
            opened.callback(self._watcher.abandon)
            self._counters.read()  # the first reading would take too long at the mark
            self._opened = opened.pop_all()
        self._readings: list[object] = []

    def begin(self) -> None:
        self._readings.append(self._counters.read())
        self._watcher.start()

    def end(self) -> None:
        self._readings.append(self._counters.read())
        self._watcher.finish()

    def result(self) -> Mapping[str, Any]:
        before, after = self._readings
        watched = self._watcher.watched()
        counted = self._counters.between(before, after, watched.asked)
        lacking = [*counted.pop("missing", ()), *map(missing, watched.missing)]
        return {
            **counted,
            "engine_status": watched.engine_status,
            "processlist": watched.process_list,
            "missing": lacking,
        }

    def close(self) -> None:
        self._opened.close()
