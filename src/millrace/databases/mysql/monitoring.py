"""Answer the queries of collectors for MySQL and MariaDB."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath

from millrace.databases.client import QUERY_LIMIT_S, DatabaseClient, Row, Session
from millrace.databases.monitoring import FileKinds, ThreadNames
from millrace.databases.mysql import query
from millrace.databases.mysql.plan_steps import MysqlExplainer, explains_of, plan_steps
from millrace.databases.mysql.query import Observable
from millrace.databases.mysql.status_counters import MysqlStatusCounters, neutral_counters
from millrace.databases.mysql.storage import InnodbStorage
from millrace.databases.mysql.thread_roles import MysqlThreadRoleQuery
from millrace.databases.mysql.wait_statistics import MysqlWaitStatistics
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.observations import Counters, PlanRow, PlanStep

_BINARY_LOG = "binary log"
_MOST_ROWS = 100
_SHOWN = ("id", "command", "time", "state")
_OWN = ("db", "info")


class MysqlMonitoring:
    """The monitoring of MySQL and MariaDB: see ``databases.monitoring.Monitoring``."""

    def __init__(self, observable: Observable, storage: InnodbStorage) -> None:
        self._observable = observable
        self._storage = storage
        self.threads = ThreadNames(
            own=tuple((each.pattern, each.kind) for each in observable.own_thread_names),
            functions={
                name: kind for kind, names in observable.thread_functions.items() for name in names
            },
            session_functions=observable.session_functions,
            command_functions=observable.command_functions,
            hint="set performance_schema = 1 (MySQL from 5.7, MariaDB from 10.5)",
        )

    def thread_roles(self, session: Session) -> MysqlThreadRoleQuery:
        return MysqlThreadRoleQuery(session, self._observable)

    def wait_statistics(self, session: Session, database: str) -> MysqlWaitStatistics:
        return MysqlWaitStatistics(session, self._observable, database)

    def status_counters(self, session: Session, database: str) -> MysqlStatusCounters:
        return MysqlStatusCounters(session, self._observable, database)

    def neutral_counters(self, grown: Mapping[str, float]) -> Counters:
        return neutral_counters(grown)

    def engine_status(self, session: Session) -> Mapping[str, int | bool]:
        sql = self._storage.query
        try:
            with query.understood(sql):
                answer = session.rows(sql)
                text = str(query.plain(list(answer[0].values())[-1])) if answer else ""
                found = asdict(self._storage.parse(text))
                return {name: value for name, value in found.items() if value is not None}
        except (OSError, DatabaseError) as error:
            raise query.unavailable(sql, error) from error

    def process_list(self, session: Session, database: str) -> Sequence[Row]:
        sql = self._observable.process_list
        try:
            with query.understood(sql):
                return rows_of(session.rows(sql), session.id, database)
        except (OSError, DatabaseError) as error:
            raise query.unavailable(sql, error) from error

    def sessions_in(self, session: Session, database: str) -> int:
        return sum(row["db"] == database for row in self.process_list(session, database))

    def explainer(self, version: str) -> MysqlExplainer:
        return MysqlExplainer(explains_of(self._observable, version))

    def plan_steps(self, rows: Sequence[PlanRow]) -> Sequence[PlanStep]:
        return plan_steps(rows)

    def file_kinds(self, client: DatabaseClient) -> FileKinds:
        logs = [
            (re.compile(re.escape(name) + r"(\.\d{6,})?"), _BINARY_LOG) for name in _logs(client)
        ]
        files = self._observable.files
        return FileKinds(
            patterns=(*logs, *((each.pattern, each.kind) for each in files)),
            commit_logs=frozenset(each.kind for each in files if each.commit_log),
        )


def _logs(client: DatabaseClient) -> set[str]:
    """Return the names of the server's binary logs without their numbers."""
    try:
        rows = client.query("SHOW BINARY LOGS", limit_s=QUERY_LIMIT_S)
    except TrialFailed:
        return set()
    return {re.sub(r"\.\d{6,}$", "", PurePosixPath(name or "").name) for name, *_ in rows}


def rows_of(answer: Sequence[Row], own_id: int, database: str) -> Sequence[Row]:
    """Return at most 100 rows of a process list, working sessions first.

    A row has the server's columns without the account and the address. Statements and databases of
    sessions outside the observed database are private and left out. Sessions that sleep in no
    database, as those of collectors do, are left out altogether.
    """
    kept = [
        {
            **{name: query.plain(row[name]) for name in _SHOWN},
            **{name: query.plain(row[name]) if row["db"] == database else None for name in _OWN},
        }
        for row in answer
        if row["id"] != own_id and not (row["command"] == "Sleep" and row["db"] is None)
    ]
    return sorted(kept, key=lambda row: row["command"] == "Sleep")[:_MOST_ROWS]
