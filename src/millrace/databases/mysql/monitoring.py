"""Answer the queries of collectors for MySQL and MariaDB.

Kinds of threads, which the Performance Schema reports: connection (works for a client), pool (works
for whichever client has a request), observer (works for millrace), applier and coordinator (of a
replica), purge, page_cleaner, log, checkpoint, io, binlog, timer (waits for a time to come), main
(accepts connections), and background for all others. Sessions of clients have a database,
millrace's own have none.

EXPLAIN's rows are read as steps in which servers of any version can be compared. Versions phrase
the same step differently, and print what others do without a word. So the labels that only some
versions print (``Backward index scan``, ``Using index condition``, ``Using MRR``) do not count, nor
do names of statements and of tables that the server makes for itself.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath

from pydantic import ValidationError

from millrace.databases.base import version_key
from millrace.databases.client import QUERY_LIMIT_S, DatabaseClient, Row, Session
from millrace.databases.deltas import number
from millrace.databases.monitoring import (
    APPLIER,
    BACKGROUND,
    CONNECTION,
    COORDINATOR,
    OBSERVER,
    POOL,
    FileKinds,
    ThreadNames,
)
from millrace.databases.mysql import query
from millrace.databases.mysql.query import Explains, Observable
from millrace.databases.mysql.status_counters import MysqlStatusCounters, neutral_counters
from millrace.databases.mysql.storage import InnodbStorage
from millrace.databases.mysql.wait_statistics import MysqlWaitStatistics
from millrace.errors import DatabaseError, TrialFailed, Unavailable
from millrace.model.observations import Counters, PlanRow, PlanStep, QueryPlan

_BINARY_LOG = "binary log"
_MOST_ROWS = 100
_SHOWN = ("id", "command", "time", "state")
_OWN = ("db", "info")


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


# Rows that stand for the change itself, without a read; and other names for the main query.
_PUT_IN = frozenset(("INSERT", "REPLACE"))
_ROLES = {
    "DERIVED": "materialised",
    "MATERIALIZED": "materialised",
    "LATERAL DERIVED": "materialised for each row",
    "SUBQUERY": "executed once",
    "UNCACHEABLE SUBQUERY": "executed for each row",
    "DEPENDENT SUBQUERY": "executed for each row",
    "UNCACHEABLE UNION": "executed for each row",
    "DEPENDENT UNION": "executed for each row",
    "UNION RESULT": "union",
}
_QUERY = "query"

_COVERS, _OF_GROUPS = "Using index", "Using index for"
_WORK = {
    "Using filesort": "a sort",
    "Using temporary": "a temporary table",
    "Start temporary": "a temporary table",
    "Using index for group-by": "one entry of the index for each group",
    "Using index for skip scan": "a range for each prefix of the index",
    "Using intersect": "an intersection of indexes",
    "Using union": "a union of indexes",
    "Using sort_union": "a union of indexes with a sort",
    "Using rowid filter": "a filter by another index",
    "FirstMatch": "a semi-join that ends at the first match",
    "LooseScan": "a semi-join by one entry for each value",
    "Range checked": "a choice of the index for each row",
    "Impossible": "no rows: an impossible condition",
    "Select tables optimized away": "no rows: the index has the answer",
}
_JOIN_BUFFER = "Using join buffer"
# "hash join" of MySQL; "BNLH join" and "BKAH join" of MariaDB.
_HASH_JOIN = re.compile(r"\bhash join\b|\bB(?:NL|KA)H\b")
_KEY_JOIN = re.compile(r"\bBatched Key Access\b|\bBKAH?\b")

_BY_KEY = frozenset(("ref", "eq_ref", "const", "ref_or_null", "index_subquery", "unique_subquery"))
_MADE_TABLE = re.compile(r"<(?:derived|subquery)(\d+)>")
_MADE_KEY = re.compile(r"<auto_(?:distinct_)?key\d*>|(?:distinct_)?key\d+", re.IGNORECASE)


def plan_steps(rows: Sequence[PlanRow]) -> tuple[PlanStep, ...]:
    """Return the steps of EXPLAIN's rows, in their order."""
    steps = []
    for row in rows:
        caseless = {column.lower(): value for column, value in row.items()}
        text = {name: str(caseless.get(name) or "") for name in _TEXTS}
        labels = [part.strip() for part in text["extra"].split(";")]
        if text["select_type"] in _PUT_IN or (not text["table"] and "No tables used" in labels):
            continue
        steps.append(_step(text, labels))
    return tuple(steps)


_TEXTS = ("select_type", "table", "type", "key", "ref", "extra")


def _step(text: dict[str, str], labels: Sequence[str]) -> PlanStep:
    made = _MADE_TABLE.fullmatch(text["table"])
    # MariaDB: "hash_ALL" for a hash join, "ref|filter" with "key|key of the filter".
    access, _, by_filter = text["type"].removeprefix("hash_").partition("|")
    key = text["key"].partition("|")[0] if by_filter else text["key"]
    key = "" if key.startswith("#hash#$") else key.removeprefix("#hash#")
    if made and _MADE_KEY.fullmatch(key):
        key = "made for it"
    work = {name for label in labels for start, name in _WORK.items() if label.startswith(start)}
    work.update(_join(label) for label in labels if label.startswith(_JOIN_BUFFER))
    return PlanStep(
        role=_ROLES.get(text["select_type"], _QUERY),
        table=f"<{made[1]}>" if made else text["table"],
        access="const" if access == "system" else access,
        key=key,
        key_parts=len(text["ref"].split(",")) if text["ref"] and access in _BY_KEY else None,
        covers=any(label == _COVERS or label.startswith(_OF_GROUPS) for label in labels),
        work=tuple(sorted(work)),
    )


def _join(label: str) -> str:
    """Return how a label says that a join buffer is looked up."""
    if _HASH_JOIN.search(label):
        return "a hash join"
    return "a join by batches of keys" if _KEY_JOIN.search(label) else "a join by nested loops"


_VERB = re.compile(r"(?:\s|\(|/\*.*?\*/|--\s.*?\n|#.*?\n)*([A-Za-z]+)", re.DOTALL)


class MysqlExplainer:
    """The explainer of MySQL and MariaDB: see ``databases.monitoring.Explainer``."""

    def __init__(self, explains: Explains) -> None:
        self._explains = explains

    def explain(self, session: Session, sql: str) -> QueryPlan:
        if verb_of(sql) not in self._explains.verbs:
            verbs = ", ".join(sorted(self._explains.verbs))
            return QueryPlan(rows=(), error=f"this version explains {verbs} only")
        try:
            with query.understood("the plan"):
                rows = session.rows(self._explains.form.replace("{sql}", sql))
            return QueryPlan(rows=tuple(plain(row) for row in rows), error=None)
        except (DatabaseError, Unavailable) as error:
            return QueryPlan(rows=(), error=error.message)
        except ValidationError as error:
            return QueryPlan(rows=(), error=f"not a plan: {error.errors()[0]['msg']}")


def explains_of(observable: Observable, version: str) -> Explains:
    """Return the syntax in which a version of a family explains."""
    first, *later = observable.explains
    key = version_key(version)
    return [first, *(entry for entry in later if version_key(entry.since) <= key)][-1]


def verb_of(sql: str) -> str:
    """Return the first word of a statement, in capitals, after comments and parentheses."""
    matched = _VERB.match(sql)
    return matched[1].upper() if matched else ""


def plain(row: Row) -> PlanRow:
    """Return a plan's row as JSON has it, with MariaDB's row count, if it is one, as a number."""
    values = {name: query.plain(value) for name, value in row.items()}
    rows = number(values.get("rows"))
    return values if rows is None else {**values, "rows": rows}


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
