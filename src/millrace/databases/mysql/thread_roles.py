"""Find the kinds of a server's threads, where its Performance Schema reports them.

Kinds: connection (works for a client), pool (works for whichever client has a request), observer
(works for millrace), applier and coordinator (of a replica), purge, page_cleaner, log, checkpoint,
io, binlog, timer (waits for a time to come), main (accepts connections), and background for all
others. Sessions of clients have a database, millrace's own have none.
"""

from collections.abc import Iterable

from millrace.databases.client import Row, Session
from millrace.databases.monitoring import (
    APPLIER,
    BACKGROUND,
    CONNECTION,
    COORDINATOR,
    OBSERVER,
    POOL,
)
from millrace.databases.mysql import query
from millrace.databases.mysql.query import Observable
from millrace.errors import Unavailable

_WAITS = "Sleep"  # the command of a session that waits for its client
# Those of a replica's threads, which the server counts as sessions too.
_OF_REPLICAS = {"Slave_SQL": COORDINATOR, "Slave_worker": APPLIER, "Slave_IO": BACKGROUND}


class MysqlThreadRoleQuery:
    """A repeatable query for the kinds of a server's threads, by one or two short statements.

    It finds no kinds where the Performance Schema is off or unreadable, and in versions that do not
    know the operating system's ids (before MySQL 5.7 and MariaDB 10.5), except for sessions, which
    MariaDB always reports.
    """

    def __init__(self, session: Session, observable: Observable) -> None:
        """Find out which kinds this server can report. Raise DatabaseError on a lost session."""
        self.reports_sessions = False
        self._session = session
        self._observable = observable
        self._sessions = self._query_for("sessions")
        self._threads = self._query_for("threads")
        with query.understood("threads of the server"):
            (handling,) = session.rows(self._observable.thread_handling)
            self.has_pool = "pool" in str(*handling.values())

    def kinds(self) -> dict[int, str]:
        with query.understood("threads of the server"):
            sessions = self._rows(self._sessions)
            threads = self._rows(self._threads)
            by_session, by_name = sessions_in(sessions), kinds_in(threads, self._observable)
        self.reports_sessions |= bool(sessions or threads)
        # Servers list a session under the pool's worker that executed it last.
        workers = {tid: kind for tid, kind in by_name.items() if kind == POOL}
        return by_name | by_session | workers

    def _rows(self, sql: str | None) -> list[Row]:
        return [] if sql is None else self._session.rows(sql)

    def _query_for(self, table: str) -> str | None:
        try:
            found = query.table_query(self._session, self._observable.tables[table], "")
        except Unavailable:
            return None
        return found.sql if "tid" in found.columns else None


def sessions_in(rows: Iterable[Row]) -> dict[int, str]:
    """Return the kinds of the threads of sessions."""
    # The server may list a busy session without its database.
    return {
        int(row["tid"]): _OF_REPLICAS.get(
            row["command"], CONNECTION if row["database"] is not None else OBSERVER
        )
        for row in rows
        if row["tid"] and (row["database"] is not None or row["command"] in (_WAITS, *_OF_REPLICAS))
    }


def kinds_in(rows: Iterable[Row], observable: Observable) -> dict[int, str]:
    """Return the kinds of threads by their names. Of several rows of a thread, a pool's counts."""
    found: dict[int, str] = {}
    for row in rows:
        if row["tid"] is not None and found.get(int(row["tid"])) != POOL:
            kind = kind_of(str(row["name"]), observable)
            is_own = kind == CONNECTION and row["database"] is None
            found[int(row["tid"])] = OBSERVER if is_own else kind
    return found


def kind_of(name: str, observable: Observable) -> str:
    """Return a thread's kind by its name, such as thread/innodb/io_read_thread."""
    kinds = (each.kind for each in observable.thread_kinds if each.pattern.search(name))
    return next(kinds, BACKGROUND)
