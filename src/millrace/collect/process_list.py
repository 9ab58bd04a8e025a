"""Looks at a server's process list and at what its engine says of itself, now and then, from a
thread of its own, so that neither the marks nor the clients wait for the answers.

The engine is asked when the window begins and when it ends. The process list is asked a second
after the begin, and then again after a second or a quarter of the time that has passed, whichever
is longer: a look a second in a short window, ever fewer in a long one, and 20 in all, which is
after two minutes and a half.

A row has what the server shows, less the account and the address. What a session outside the
observed database does is nobody's business: its statement is left out. Sessions that sleep in no
database, as those of observers do, are left out altogether.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.collect import query
from millrace.databases.deltas import Row
from millrace.errors import Unavailable

MOST_LOOKS = 20

_SHORTEST_GAP_S = 1.0
_GAP_SHARE = 0.25
_MOST_ROWS = 100
_SHOWN = ("id", "db", "command", "time", "state")


@dataclass
class Watched:
    """What was seen; ``asked`` counts the statements that it took before the end, by their status
    variable."""

    engine_status: list[dict[str, Any]] = field(default_factory=list)
    process_list: list[dict[str, Any]] = field(default_factory=list)
    missing: list[Unavailable] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)


class Watcher:
    """Watches from ``start`` until ``finish``; ``watched`` waits for the last answer.

    ``session`` is the watcher's alone from ``start`` on; whoever made it closes it, after
    ``watched`` or ``abandon``.
    """

    def __init__(
        self, session: Connection[Any], engine_status: str, process_list: str, database: str
    ) -> None:
        self._session = session
        self._engine_status = engine_status
        self._process_list = process_list
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
        self._found.asked["Com_show_engine_status"] += 1
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
            with query.understood(self._engine_status):
                answer = query.rows(self._session, self._engine_status)
                texts = [query.plain(list(row.values())[-1]) for row in answer[:1]]
        except Unavailable as lack:
            self._lack(lack)
            return
        except (OSError, pymysql.MySQLError) as error:
            self._lack(query.unavailable(self._engine_status, error))
            return
        for text in texts:
            self._found.engine_status.append({"t_s": at_s, "text": str(text)})

    def _ask_for_process_list(self) -> bool:
        at_s = time.monotonic() - self._began_at
        try:
            with query.understood(self._process_list):
                answer = query.rows(self._session, self._process_list)
                own_id: int = self._session.thread_id()  # type: ignore[no-untyped-call]
                seen = rows_of(answer, own_id, self._database)
        except Unavailable as lack:
            self._lack(lack)
            return False
        except (OSError, pymysql.MySQLError) as error:
            self._lack(query.unavailable(self._process_list, error))
            return False
        self._found.asked["Com_show_processlist"] += 1
        self._found.process_list.append({"t_s": at_s, "rows": seen})
        return True

    def _lack(self, lack: Unavailable) -> None:
        if lack.message not in {known.message for known in self._found.missing}:
            self._found.missing.append(lack)


def gap_s(passed_s: float) -> float:
    """How long after a look at ``passed_s`` the next one is."""
    return max(_SHORTEST_GAP_S, passed_s * _GAP_SHARE)


def rows_of(answer: Sequence[Row], own_id: int, database: str) -> list[dict[str, Any]]:
    """The rows of a process list that are kept: working ones first, and not more than 100."""
    kept = [
        {
            **{name: query.plain(row[name]) for name in _SHOWN},
            "info": query.plain(row["info"]) if row["db"] == database else None,
        }
        for row in answer
        if row["id"] != own_id and not (row["command"] == "Sleep" and row["db"] is None)
    ]
    return sorted(kept, key=lambda row: row["command"] == "Sleep")[:_MOST_ROWS]
