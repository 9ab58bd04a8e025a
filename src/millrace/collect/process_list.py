"""Looks at a server's process list and at what its engine says of itself, now and then, from a
thread of its own, so that neither the marks nor the clients wait for the answers.

The engine is asked when the window begins and when it ends. The process list is asked a second
after the begin, and then again after a second or a quarter of the time that has passed, whichever
is longer: a look a second in a short window, ever fewer in a long one, and 20 in all, which is
after two minutes and a half.
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
    """What was seen; ``asked`` counts how often the server was asked for what, before the end."""

    engine_status: list[dict[str, Any]] = field(default_factory=list)
    process_list: list[dict[str, Any]] = field(default_factory=list)
    missing: list[Unavailable] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)


class Watcher:
    """Watches from ``start`` until ``finish``; ``watched`` waits for the last answer.

    ``session`` is the watcher's alone from ``start`` on; whoever made it closes it, after
    ``watched`` or ``abandon``.
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
        """Begin to watch; t_s counts from here."""
        self._began_at = time.monotonic()
        self._thread.start()

    def finish(self) -> None:
        """Have the engine asked once more, and end; returns at once."""
        self._ended_at = time.monotonic()
        self._ended.set()

    def watched(self) -> Watched:
        """What was seen, when the last answer is there."""
        self._thread.join()
        return self._found

    def abandon(self) -> None:
        """End, wherever it is, and wait until the session is not used any more."""
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
    """How long after a look at ``passed_s`` the next one is."""
    return max(_SHORTEST_GAP_S, passed_s * _GAP_SHARE)
