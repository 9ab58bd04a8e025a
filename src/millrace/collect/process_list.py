"""Poll a server's process list and its engine's status from a thread of its own.

Neither the marks nor the clients wait for the answers. The engine's status is queried when the
window begins and when it ends. The first look at the process list comes a second after the begin.
The gap to the next one is a second or a quarter of the time that has passed, whichever is longer: a
look each second in a short window, fewer and fewer in a long one. After 20 looks, which take two
and a half minutes, there are no more.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from millrace.databases.client import Session
from millrace.databases.monitoring import Monitoring
from millrace.errors import Unavailable

MOST_LOOKS = 20

_SHORTEST_GAP_S = 1.0
_GAP_SHARE = 0.25


@dataclass
class Watched:
    """The observations; ``asked`` counts the queries of each kind before the end."""

    engine_status: list[dict[str, Any]] = field(default_factory=list)
    process_list: list[dict[str, Any]] = field(default_factory=list)
    missing: list[Unavailable] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)


class Watcher:
    """A poller that runs from ``start`` until ``finish``; ``watched`` waits for the last answer.

    From ``start`` on only the watcher uses ``session``; the caller closes it, after ``watched`` or
    ``abandon``.
    """

    def __init__(self, session: Session, monitoring: Monitoring, database: str) -> None:
        self._session = session
        self._monitoring = monitoring
        self._database = database
        self._found = Watched()
        self._ended = threading.Event()
        self._ended_at = 0.0
        self._began_at = 0.0
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin to poll; ``t_s`` counts from here."""
        self._began_at = time.monotonic()
        self._thread.start()

    def finish(self) -> None:
        """Stop polling after one more query of the engine's status; return at once."""
        self._ended_at = time.monotonic()
        self._ended.set()

    def watched(self) -> Watched:
        """Wait for the last answer and return the observations."""
        self._thread.join()
        return self._found

    def abandon(self) -> None:
        """Stop at any point, and wait until the session is no longer in use."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        self._ask_engine(0.0)
        self._found.asked["engine_status"] += 1
        looks = 0
        while not self._ended.wait(gap_s(time.monotonic() - self._began_at)):
            if looks < MOST_LOOKS and self._ask_for_process_list():
                looks += 1
            else:
                self._ended.wait()
        if self._ended_at:
            self._ask_engine(self._ended_at - self._began_at)

    def _ask_engine(self, at_s: float) -> None:
        try:
            texts = self._monitoring.engine_status(self._session)
        except Unavailable as lack:
            self._lack(lack)
            return
        for text in texts:
            self._found.engine_status.append({"t_s": at_s, "text": text})

    def _ask_for_process_list(self) -> bool:
        at_s = time.monotonic() - self._began_at
        try:
            seen = self._monitoring.process_list(self._session, self._database)
        except Unavailable as lack:
            self._lack(lack)
            return False
        self._found.asked["process_list"] += 1
        self._found.process_list.append({"t_s": at_s, "rows": seen})
        return True

    def _lack(self, lack: Unavailable) -> None:
        if lack.message not in {known.message for known in self._found.missing}:
            self._found.missing.append(lack)


def gap_s(passed_s: float) -> float:
    """Return the seconds from a look at ``passed_s`` to the next one."""
    return max(_SHORTEST_GAP_S, passed_s * _GAP_SHARE)
