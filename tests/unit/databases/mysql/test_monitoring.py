"""Test which fields of a process list are stored, and which sessions count."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.databases.client import Row
from millrace.databases.mysql.monitoring import (
    explains_of,
    kind_of,
    kinds_in,
    plain,
    plan_steps,
    rows_of,
    sessions_in,
    verb_of,
)
from millrace.model.observations import PlanStep
from tests.support.observables import observable


def row(
    number: int, db: str | None, command: str = "Query", info: str | None = "SELECT 1"
) -> dict[str, object]:
    return {
        "id": number,
        "user": "root",
        "host": "localhost",
        "db": db,
        "command": command,
        "time": 0,
        "state": "init",
        "info": info,
    }


def test_observers_are_left_out_and_what_others_say_too() -> None:
    seen = rows_of(
        [
            row(1, None, "Query", "SHOW PROCESSLIST"),
            row(2, None, "Sleep", None),
            row(3, "d", "Sleep", None),
            row(4, "d"),
            row(5, "payroll", info="SELECT secret"),
            row(6, None, "Daemon", None),
        ],
        own_id=1,
        database="d",
    )
    assert [(each["id"], each["info"]) for each in seen] == [
        (4, "SELECT 1"),
        (5, None),
        (6, None),
        (3, None),
    ]
    assert [each["db"] for each in seen] == ["d", None, None, "d"]
    assert set(seen[0]) == {"id", "db", "command", "time", "state", "info"}


def test_a_crowd_is_cut_at_those_who_sleep() -> None:
    crowd = [row(n, "d", "Sleep", None) for n in range(200)] + [
        row(n, "d") for n in range(300, 340)
    ]
    seen = rows_of(crowd, own_id=0, database="d")
    assert len(seen) == 100
    assert sum(each["command"] == "Query" for each in seen) == 40


class _Session:
    """A session of a server that answers each statement with these rows."""

    id = 1

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def rows(self, _sql: str) -> Sequence[Row]:
        return self._rows


def test_sessions_in_a_database_count_while_they_end() -> None:
    monitoring = databases.get("mysql").monitoring
    listed = [row(1, "d"), row(2, "d", "Sleep", None), row(3, "other"), row(4, None, "Daemon")]
    session: Any = _Session([*listed, row(5, "d", "Quit", None)])
    assert monitoring.sessions_in(session, "d") == 2
    assert monitoring.sessions_in(session, "nothing") == 0


REPORT = """
LATEST DETECTED DEADLOCK
UPDATE accounts SET pin = '4711-swordfish' WHERE owner = 'alice'
TRANSACTIONS
Trx id counter 1820
Purge done for trx's n:o < 1819 undo n:o < 0 state: running but idle
History list length 7
---TRANSACTION 1819, ACTIVE 3 sec
INSERT INTO cards VALUES ('swordfish')
LOG
Log sequence number          18249
Last checkpoint at           18000
Modified db pages  12
"""


def test_a_report_of_the_engine_is_read_for_its_figures_alone() -> None:
    session: Any = _Session([{"type": "InnoDB", "name": "", "status": REPORT}])
    found = databases.get("mysql").monitoring.engine_status(session)
    assert found["history"] == 7
    assert found["log_position"] == 18249
    assert found["dirty_pages"] == 12
    assert all(isinstance(value, int) for value in found.values())
    assert databases.get("mysql").monitoring.engine_status(_Session([])) == {}  # type: ignore[arg-type]


OBSERVABLE = observable("mysql")


THREADS = {
    "connection": "sql/one_connection",
    "pool": "threadpool/worker_thread",
    "timer": (
        "threadpool/timer_thread innodb/srv_lock_timeout_thread "
        "innodb/srv_error_monitor_thread mysys/statement_timer sql/thread_timer_notifier"
    ),
    "main": "sql/main",
    "purge": "innodb/srv_purge_thread innodb/srv_worker_thread",
    "page_cleaner": (
        "innodb/page_cleaner_thread innodb/page_cleaner innodb/page_flush_coordinator_thread "
        "innodb/lru_manager_thread"
    ),
    "io": "innodb/io_read_thread innodb/io_log_thread innodb/io_handler_thread",
    "log": (
        "innodb/log_writer_thread innodb/log_flush_notifier_thread innodb/log_files_governor_thread"
    ),
    "checkpoint": "innodb/log_checkpointer_thread",
    "background": (
        "aria/checkpoint_bg innodb/srv_master_thread innodb/ib_tpool_worker sql/signal_handler"
    ),
    "binlog": "sql/compress_gtid_table sql/binlog_background",
}
"""The names of threads below ``thread/``, by kind."""


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in THREADS.items() for name in names.split()]
)
def test_a_name_has_a_kind(name: str, kind: str) -> None:
    for family in ("mysql", "mariadb"):
        assert kind_of(f"thread/{name}", observable(family)) == kind
        assert kind_of("", observable(family)) == "background"


def test_sessions_in_no_database_are_not_clients() -> None:
    client = "thread/sql/one_connection"
    rows: list[Row] = [
        {"tid": 11, "name": "thread/sql/main", "database": None},
        {"tid": 12, "name": client, "database": "d"},
        {"tid": 13, "name": client, "database": None},
        {"tid": None, "name": "thread/sql/compress_gtid_table", "database": None},
    ]
    assert kinds_in(rows, OBSERVABLE) == {11: "main", 12: "connection", 13: "observer"}


def test_sessions_that_wait_in_no_database_are_of_millrace() -> None:
    rows: list[Row] = [
        {"tid": 11, "database": "d", "command": "Query"},
        {"tid": 12, "database": None, "command": "Sleep"},
        {"tid": 13, "database": None, "command": "Query"},  # its database was not available
        {"tid": 14, "database": None, "command": "Daemon"},
        {"tid": 0, "database": "d", "command": "Sleep"},
    ]
    assert sessions_in(rows) == {11: "connection", 12: "observer"}


def test_a_worker_is_of_the_pool_whatever_session_it_has() -> None:
    worker: Row = {"tid": 11, "name": "thread/threadpool/worker_thread", "database": None}
    session: Row = {"tid": 11, "name": "thread/sql/one_connection", "database": "d"}
    assert kinds_in([worker, session], OBSERVABLE) == {11: "pool"}
    assert kinds_in([session, worker], OBSERVABLE) == {11: "pool"}


def plan_row(**columns: Any) -> dict[str, Any]:
    usual = {"id": 1, "select_type": "SIMPLE", "table": "item", "type": "ref",
             "possible_keys": "k", "key": "k", "key_len": "4", "ref": "const", "rows": 4,
             "Extra": None}  # fmt: skip
    return {**usual, **columns}


def one(**columns: Any) -> PlanStep:
    (step,) = plan_steps([plan_row(**columns)])
    return step


def test_step_has_table_access_key_and_its_columns() -> None:
    assert one(ref="const,d.a.id", Extra="Using where; Using index; Using filesort") == PlanStep(
        role="query", table="item", access="ref", key="k", key_parts=2, covers=True,
        work=("a sort",),
    )  # fmt: skip
    assert one(type="range", ref=None).key_parts is None


@pytest.mark.parametrize(
    "label",
    [
        "Backward index scan", "Using index condition", "Using MRR", "Rowid-ordered scan",
        "Using where", "Using where with pushed condition", "Distinct",
    ],
)  # fmt: skip
def test_labels_of_some_versions_do_not_count(label: str) -> None:
    assert one(Extra=label) == one()
    assert one(Extra=f"Using where; {label}; Using filesort") == one(Extra="Using filesort")


def test_select_types_of_one_query_are_alike() -> None:
    assert one(select_type="PRIMARY") == one(select_type="UPDATE") == one()
    assert one(select_type="DERIVED") == one(select_type="MATERIALIZED")
    assert one(select_type="DERIVED").role == "materialised"
    assert one(select_type="DEPENDENT SUBQUERY").role == "executed for each row"


def test_columns_are_found_in_capitals_too() -> None:
    assert plan_steps([{name.upper(): value for name, value in plan_row().items()}]) == (one(),)


@pytest.mark.parametrize(
    ("labels", "work"),
    [
        (
            # MySQL to 8.0.17, and MariaDB
            ("Using join buffer (Block Nested Loop)", "Using join buffer (flat, BNL join)",
             "Using join buffer", "Using join buffer (incremental, BNL join)"),
            "a join by nested loops",
        ),
        (("Using join buffer (hash join)", "Using join buffer (flat, BNLH join)"), "a hash join"),
        (
            ("Using join buffer (Batched Key Access)", "Using join buffer (flat, BKA join)"),
            "a join by batches of keys",
        ),
        (("Using temporary", "Start temporary"), "a temporary table"),
        (("Using intersect(a,b)",), "an intersection of indexes"),
        (("Using rowid filter",), "a filter by another index"),
    ],
)  # fmt: skip
def test_work_has_one_name_in_all_versions(labels: tuple[str, ...], work: str) -> None:
    assert {one(Extra=label).work for label in labels} == {(work,)}


def test_hash_join_of_mariadb_reads_the_table_as_that_of_mysql() -> None:
    mysql = one(type="ALL", key=None, ref=None, Extra="Using where; Using join buffer (hash join)")
    mariadb = one(
        type="hash_ALL", key="#hash#$hj", ref="d.a.kind",
        Extra="Using where; Using join buffer (flat, BNLH join)",
    )  # fmt: skip
    assert mysql == mariadb


def test_row_filter_of_mariadb_is_work_of_the_same_access() -> None:
    found = one(type="ref|filter", key="k|name", Extra="Using where; Using rowid filter")
    assert (found.access, found.key, found.work) == ("ref", "k", ("a filter by another index",))


def test_tables_and_keys_that_a_server_makes_have_one_name() -> None:
    mysql = one(table="<derived2>", key="<auto_key0>")
    assert mysql == one(table="<subquery2>", key="key0")
    assert (mysql.table, mysql.key) == ("<2>", "made for it")
    assert one(key="key0").key == "key0"


def test_rows_of_a_change_itself_are_no_steps() -> None:
    assert plan_steps([plan_row(select_type="INSERT", type="ALL", key=None)]) == ()
    assert plan_steps([plan_row(table=None, type=None, key=None, Extra="No tables used")]) == ()


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        ("SELECT 1", "SELECT"),
        (" \n( select 1) UNION (SELECT 2)", "SELECT"),
        ("/* a */ /*b*/UPDATE t SET k = 1", "UPDATE"),
        ("-- what it does\nDELETE FROM t", "DELETE"),
        ("# so\nINSERT INTO t VALUES (1)", "INSERT"),
        ("COMMIT", "COMMIT"),
        ("", ""),
        ("?", ""),
    ],
)
def test_the_first_word_of_a_statement(sql: str, verb: str) -> None:
    assert verb_of(sql) == verb


@given(st.text())
def test_any_text_has_a_verb_or_none(sql: str) -> None:
    verb = verb_of(sql)
    assert verb == "" or (verb.isascii() and verb.isalpha())


@pytest.mark.parametrize(
    ("family", "version", "form", "yes", "no"),
    [
        ("mysql", "5.5.9", "EXPLAIN {sql}", "SELECT", "UPDATE"),
        ("mysql", "5.6.24", "EXPLAIN FORMAT=TRADITIONAL {sql}", "UPDATE", "COMMIT"),
        ("mysql", "9.7.4", "EXPLAIN FORMAT=TRADITIONAL {sql}", "WITH", "BEGIN"),
        ("mariadb", "5.5.60", "EXPLAIN {sql}", "SELECT", "DELETE"),
        ("mariadb", "10.1.23", "EXPLAIN {sql}", "DELETE", "WITH"),
        ("mariadb", "11.8.9", "EXPLAIN {sql}", "WITH", "HANDLER"),
    ],
)
def test_versions_differ_in_what_they_explain(
    family: str, version: str, form: str, yes: str, no: str
) -> None:
    explains = explains_of(observable(family), version)
    assert explains.form == form
    assert yes in explains.verbs
    assert no not in explains.verbs


def test_a_row_of_a_plan_is_as_json_has_it() -> None:
    # MariaDB 10.11 reports rows as text, MySQL 5.7 the share as a decimal.
    assert plain(
        {"id": 1, "table": "t", "ref": None, "rows": "1", "filtered": Decimal("99.5")}
    ) == {"id": 1, "table": "t", "ref": None, "rows": 1, "filtered": 99.5}
    assert plain({"rows": "10 (5%)"}) == {"rows": "10 (5%)"}
    assert plain({"rows": None}) == {"rows": None}
    assert plain({"explain": b"-> x"}) == {"explain": "-> x"}
