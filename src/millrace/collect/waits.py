"""What a server itself sums up between the marks: waits, statements and stages.

Each look takes its time, while clients work: sums miss what was done in the first milliseconds of
the window. A time for one statement is a sum over the same row's count, not over what clients did.
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
    """Return an observer of the sums. Raises Unavailable where the server gives no session."""
    return _WaitsObserver(target)


class _WaitsObserver:
    def __init__(self, target: Target) -> None:
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(contextlib.closing(session_of(target)))
            monitoring = target.instance.family.monitoring
            self._statistics = monitoring.wait_statistics(session, target.database)
            self._statistics.read()  # the first time takes longer than it may at the mark
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
