"""Answer the queries of collectors for MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from millrace.databases.client import QUERY_LIMIT_S, Row, ServerClient, Session
from millrace.databases.monitoring import BACKGROUND, ThreadNames
from millrace.databases.mysql import query
from millrace.databases.mysql.explain import MysqlExplainer, explains_of
from millrace.databases.mysql.observable import Observable
from millrace.databases.mysql.status_counters import MysqlStatusCounters
from millrace.databases.mysql.thread_roles import MysqlThreadRoles
from millrace.databases.mysql.wait_statistics import MysqlWaitStatistics
from millrace.errors import DatabaseError

# Names that threads set themselves, at most 15 characters: MySQL from 8.0.27 (with Performance
# Schema) and MariaDB from 11.5. The first match counts.
_OWN_NAMES = (
    (r"ib_log_checkpt", "checkpoint"),
    (r"ib_log_.*", "log"),
    (r"ib_pg_flush.*|page_cleaner", "page_cleaner"),
    (r"ib_srv_(purge|wkr).*", "purge"),
    (r"ib_io_.*|io_uring_wait", "io"),
    (r"ib_srv_(lock_to|err_mon|mon)|statement_timer", "timer"),
    (r"binlog.*|gtid_zip", "binlog"),
    (r"(ib|xpl|rpl|slave)_.*", BACKGROUND),
    (r"sig_handler|evt_sched|checkpoint_bg|manager|signal_handler", BACKGROUND),
)


_MOST_ROWS = 100
_SHOWN = ("id", "db", "command", "time", "state")


class MysqlMonitoring:
    """The monitoring of MySQL and MariaDB: see ``databases.monitoring.Monitoring``."""

    def __init__(self, observable: Observable) -> None:
        self._observable = observable
        self.threads = ThreadNames(
            own=tuple((re.compile(pattern), kind) for pattern, kind in _OWN_NAMES),
            functions=observable.thread_functions,
            hint="set performance_schema = 1 (MySQL from 5.7, MariaDB from 10.5)",
        )

    def thread_roles(self, session: Session) -> MysqlThreadRoles:
        return MysqlThreadRoles(session, self._observable)

    def wait_statistics(self, session: Session, database: str) -> MysqlWaitStatistics:
        return MysqlWaitStatistics(session, self._observable, database)

    def status_counters(self, session: Session, database: str) -> MysqlStatusCounters:
        return MysqlStatusCounters(session, self._observable, database)

    def engine_status(self, session: Session) -> Sequence[str]:
        sql = self._observable.engine_status
        try:
            with query.understood(sql):
                answer = session.rows(sql)
                return [str(query.plain(list(row.values())[-1])) for row in answer[:1]]
        except (OSError, DatabaseError) as error:
            raise query.unavailable(sql, error) from error

    def process_list(self, session: Session, database: str) -> list[dict[str, Any]]:
        sql = self._observable.process_list
        try:
            with query.understood(sql):
                return rows_of(session.rows(sql), session.id, database)
        except (OSError, DatabaseError) as error:
            raise query.unavailable(sql, error) from error

    def explainer(self, version: str) -> MysqlExplainer:
        return MysqlExplainer(explains_of(self._observable, version))

    def change_logs(self, client: ServerClient) -> Sequence[str]:
        return [name or "" for name, *_ in client.query("SHOW BINARY LOGS", limit_s=QUERY_LIMIT_S)]


def rows_of(answer: Sequence[Row], own_id: int, database: str) -> list[dict[str, Any]]:
    """Return at most 100 rows of a process list, working sessions first.

    A row has the server's columns without the account and the address. Statements of sessions
    outside the observed database are private and left out. Sessions that sleep in no database, as
    those of collectors do, are left out altogether.
    """
    kept = [
        {
            **{name: query.plain(row[name]) for name in _SHOWN},
            "info": query.plain(row["info"]) if row["db"] == database else None,
        }
        for row in answer
        if row["id"] != own_id and not (row["command"] == "Sleep" and row["db"] is None)
    ]
    return sorted(kept, key=lambda row: row["command"] == "Sleep")[:_MOST_ROWS]
