"""Collect a server's own sums between the marks: waits, statements and stages.

Each look takes time while clients work, so the sums miss the first milliseconds of the window. A
time for one statement divides a row's sum by the same row's count, not by the clients' count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from millrace.collect.model import Collector, Target
from millrace.collect.sessions import session_of

NAME = "waits"
COST = (
    "Four or five questions at each mark, a few milliseconds in all; one session stays open. The "
    "Performance Schema itself costs what its configuration makes it cost: it is never switched "
    "on for this."
)


def collector(target: Target) -> Collector:
    """Create the collector of the sums. Raise Unavailable where the server refuses a session."""
    return _WaitsObserver(target)


class _WaitsObserver:
    def __init__(self, target: Target) -> None:
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(contextlib.closing(session_of(target)))
            monitoring = target.instance.family.monitoring
            self._statistics = monitoring.wait_statistics(session, target.database)
            self._statistics.read()  # the first reading would take too long at the mark
            self._opened = opened.pop_all()
        self._readings: list[object] = []

    def begin(self) -> None:
        self._readings.append(self._statistics.read())

    def end(self) -> None:
        self._readings.append(self._statistics.read())

    def result(self) -> Mapping[str, Any]:
        return self._statistics.between(*self._readings)

    def close(self) -> None:
        self._opened.close()
