"""Test the names that servers of all versions give their threads."""

import pytest

from millrace.databases.client import Row
from millrace.databases.mysql.thread_roles import kind_of, kinds_in, sessions_in
from tests.unit.databases.mysql.observables import observable

OBSERVABLE = observable("mysql")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("thread/sql/one_connection", "connection"),
        ("thread/threadpool/worker_thread", "pool"),
        ("thread/threadpool/timer_thread", "timer"),
        ("thread/sql/main", "main"),
        ("thread/innodb/srv_purge_thread", "purge"),
        ("thread/innodb/srv_worker_thread", "purge"),
        ("thread/innodb/page_cleaner_thread", "page_cleaner"),
        ("thread/innodb/page_cleaner", "page_cleaner"),
        ("thread/innodb/page_flush_coordinator_thread", "page_cleaner"),
        ("thread/innodb/lru_manager_thread", "page_cleaner"),
        ("thread/innodb/io_read_thread", "io"),
        ("thread/innodb/io_log_thread", "io"),
        ("thread/innodb/io_handler_thread", "io"),
        ("thread/innodb/log_writer_thread", "log"),
        ("thread/innodb/log_flush_notifier_thread", "log"),
        ("thread/innodb/log_files_governor_thread", "log"),
        ("thread/innodb/log_checkpointer_thread", "checkpoint"),
        ("thread/aria/checkpoint_bg", "background"),
        ("thread/sql/compress_gtid_table", "binlog"),
        ("thread/sql/binlog_background", "binlog"),
        ("thread/innodb/srv_lock_timeout_thread", "timer"),
        ("thread/innodb/srv_error_monitor_thread", "timer"),
        ("thread/mysys/statement_timer", "timer"),
        ("thread/sql/thread_timer_notifier", "timer"),
        ("thread/innodb/srv_master_thread", "background"),
        ("thread/innodb/ib_tpool_worker", "background"),
        ("thread/sql/signal_handler", "background"),
        ("", "background"),
    ],
)
def test_a_name_has_a_kind(name: str, kind: str) -> None:
    assert kind_of(name, OBSERVABLE) == kind
    assert kind_of(name, observable("mariadb")) == kind


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
