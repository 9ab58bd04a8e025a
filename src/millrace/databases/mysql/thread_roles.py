"""What the threads of a server are for, where its Performance Schema tells.

Kinds: connection (works for a client), pool (works for whichever client has a request), observer
(works for millrace), purge, page_cleaner, log, checkpoint, io, binlog, timer (waits for a time to
come), main (takes connections), and background for all others. Clients have a database, sessions of
millrace's own have none.
"""

from __future__ import annotations

from collections.abc import Iterable

from millrace.databases.client import Row, Session
from millrace.databases.monitoring import BACKGROUND, CONNECTION, OBSERVER, POOL
from millrace.databases.mysql import query
from millrace.databases.mysql.observable import Observable
from millrace.errors import Unavailable

_WAITS = "Sleep"  # the command of a session that waits for its client


class MysqlThreadRoles:
    """Asks a server for the kinds of its threads, as often as wanted, by one short question or two.

    It tells nothing where its Performance Schema is off or not to be read, and in versions that do
    not know the operating system's ids (before MySQL 5.7 and MariaDB 10.5), but for sessions, which
    MariaDB always tells. ``tells_sessions`` says whether it told the threads of all its sessions,
    ``has_pool`` whether sessions share a pool of threads.
    """

    def __init__(self, session: Session, observable: Observable) -> None:
        """Find out what this server can tell. Raises DatabaseError where the session is
        lost."""
        self.tells_sessions = False
        self._session = session
        self._observable = observable
        self._sessions = self._question("sessions")
        self._threads = self._question("threads")
        with query.understood("threads of the server"):
            (handling,) = session.rows(self._observable.thread_handling)
            self.has_pool = "pool" in str(*handling.values())

    def kinds(self) -> dict[int, str]:
        """The kinds of threads now, by the operating system's ids, as far as the server tells."""
        with query.understood("threads of the server"):
            return self._kinds()

    def _kinds(self) -> dict[int, str]:
        sessions = self._rows(self._sessions)
        threads = self._rows(self._threads)
        self.tells_sessions |= bool(sessions or threads)
        by_session, by_name = sessions_in(sessions), kinds_in(threads, self._observable)
        # Sessions are told under the worker of a pool that carried them out last.
        workers = {tid: kind for tid, kind in by_name.items() if kind == POOL}
        return by_name | by_session | workers

    def _rows(self, question: str | None) -> list[Row]:
        return [] if question is None else self._session.rows(question)

    def _question(self, table: str) -> str | None:
        try:
            question = query.question(self._session, self._observable.tables[table], "")
        except Unavailable:
            return None
        return question.sql if "tid" in question.columns else None


def sessions_in(rows: Iterable[Row]) -> dict[int, str]:
    """The kinds of the threads of sessions."""
    # A session that is busy at the moment may be shown without its database.
    return {
        int(row["tid"]): CONNECTION if row["database"] is not None else OBSERVER
        for row in rows
        if row["tid"] and (row["database"] is not None or row["command"] == _WAITS)
    }


def kinds_in(rows: Iterable[Row], observable: Observable) -> dict[int, str]:
    """The kinds of threads by their names; of several rows of a thread, that of a pool counts."""
    found: dict[int, str] = {}
    for row in rows:
        if row["tid"] is not None and found.get(int(row["tid"])) != POOL:
            kind = kind_of(str(row["name"]), observable)
            is_own = kind == CONNECTION and row["database"] is None
            found[int(row["tid"])] = OBSERVER if is_own else kind
    return found


def kind_of(name: str, observable: Observable) -> str:
    """The kind of a thread by its name in the Performance Schema, ``thread/innodb/io_read_thread``;
    ``background`` where nothing more is known."""
    kinds = (kind for kind, pattern in observable.thread_kinds if pattern.search(name))
    return next(kinds, BACKGROUND)
