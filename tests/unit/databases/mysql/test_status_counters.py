from typing import Any, cast

import pytest

from millrace.databases.client import Session
from millrace.databases.deltas import split_gauges
from millrace.databases.monitoring import CounterDeltas
from millrace.databases.mysql.query import Observable
from millrace.databases.mysql.status_counters import (
    CounterReading,
    MysqlStatusCounters,
    binary_log_in,
    compression_in,
    deltas_of,
    metrics_in,
    neutral_counters,
    numbers_in,
    require_values,
)
from millrace.errors import DatabaseError, Unavailable
from tests.support.observables import observable

MYSQL = observable("mysql")
MARIADB = observable("mariadb")

# Part of SHOW GLOBAL STATUS of MySQL 8.0.33.
STATUS = [
    ("Bytes_received", "697"),
    ("Caching_sha2_password_rsa_public_key", "-----BEGIN PUBLIC KEY"),
    ("Com_select", "12"),
    ("Innodb_buffer_pool_dump_status", "Dumping of buffer pool"),
    ("Innodb_buffer_pool_pages_dirty", "36"),
    ("Innodb_redo_log_enabled", "ON"),
    ("Last_query_cost", "0.000000"),
    ("Max_used_connections_time", "2026-11-22 06:29:10"),
]


def test_only_numbers_are_kept() -> None:
    assert numbers_in(STATUS) == {
        "Bytes_received": 697,
        "Com_select": 12,
        "Innodb_buffer_pool_pages_dirty": 36,
        "Last_query_cost": 0.0,
    }


def test_metrics_are_those_that_are_on_whatever_the_version_calls_that() -> None:
    mysql = [
        {"name": "log_writes", "count": 7, "enabled": "enabled"},
        {"name": "lock_deadlocks", "count": 0, "enabled": "disabled"},
    ]
    mariadb = [
        {"name": "log_writes", "count": 7, "enabled": 1},
        {"name": "lock_deadlocks", "count": 0, "enabled": 0},
    ]
    assert metrics_in(mysql) == metrics_in(mariadb) == {"log_writes": 7}


def test_metrics_that_tell_nothing_have_a_reason() -> None:
    with pytest.raises(Unavailable, match="no row is shown") as caught:
        require_values("m", [])
    assert "GRANT PROCESS" in (caught.value.hint or "")
    with pytest.raises(Unavailable, match="all metrics are off") as caught:
        require_values("m", [{"name": "lock_deadlocks", "count": 0, "enabled": "disabled"}])
    assert "innodb_monitor_enable = all" in (caught.value.hint or "")
    require_values("m", [{"name": "log_writes", "count": 0, "enabled": "enabled"}])


def test_pages_compressed_are_of_all_sizes() -> None:
    rows: list[dict[str, Any]] = [
        {"compress_ops": 3, "uncompress_ops": 0},
        {"compress_ops": "4", "uncompress_ops": "1"},  # MySQL's statement protocol returns texts
    ]
    assert compression_in(rows) == {"INNODB_CMP.compress_ops": 7, "INNODB_CMP.uncompress_ops": 1}


def test_the_binary_log_is_the_sum_of_its_files() -> None:
    files: list[dict[str, Any]] = [
        {"Log_name": "binlog.000001", "File_size": 157, "Encrypted": "No"},
        {"Log_name": "binlog.000002", "File_size": "4096"},
    ]
    assert binary_log_in(files) == {"binary_log_bytes": 4253}
    assert binary_log_in([]) == {}


@pytest.mark.parametrize(
    ("grown", "expected"), [({"binary_log_bytes": 90.0, "Binlog_cache_use": 1.0}, 90.0), ({}, 0.0)]
)
def test_a_binary_log_that_is_off_does_not_grow(grown: dict[str, float], expected: float) -> None:
    found = neutral_counters(grown).binary_log_bytes
    assert found is not None
    assert found.value == expected


def test_a_binary_log_whose_files_are_hidden_is_not_known() -> None:
    assert neutral_counters({"Binlog_cache_use": 1.0}).binary_log_bytes is None


def test_deltas_gauges_and_metrics_of_two_readings() -> None:
    before = CounterReading(
        {"Com_select": 100, "Com_insert": 5, "Threads_running": 1, "Questions": 110},
        {"log_writes": 7, "trx_rseg_history_len": 40, "buffer_flush_batch_pages": 9},
    )
    after = CounterReading(
        {"Com_select": 350, "Com_insert": 5, "Threads_running": 9, "Questions": 361},
        {"log_writes": 19, "trx_rseg_history_len": 25, "buffer_flush_batch_pages": 12},
    )
    assert deltas_of(before, after, MYSQL) == CounterDeltas(
        deltas={"Com_select": 250, "Questions": 251},
        gauges={"Threads_running": 9},
        metrics={"log_writes": 12},
        metric_gauges={"trx_rseg_history_len": 25, "buffer_flush_batch_pages": 12},
    )


def test_counters_leave_out_what_millraces_sessions_did() -> None:
    # 180 answers of 70 bytes to clients, and 13 KB of answers to millrace.
    before = CounterReading(
        {"Com_select": 100, "Bytes_sent": 9000, "Handler_write": 50, "Questions": 103,
         "Queries": 110, "Innodb_rows_read": 7},
        {},
        {8: {"Com_select": 3, "Bytes_sent": 500, "Handler_write": 50, "Questions": 3}},
    )  # fmt: skip
    after = CounterReading(
        {"Com_select": 285, "Bytes_sent": 34600, "Handler_write": 950, "Questions": 288,
         "Queries": 295, "Innodb_rows_read": 187},
        {},
        {8: {"Com_select": 6, "Bytes_sent": 12500, "Handler_write": 800, "Questions": 6},
         9: {"Com_select": 2, "Bytes_sent": 1000, "Handler_write": 150, "Questions": 2}},
    )  # fmt: skip
    assert deltas_of(before, after, MYSQL).deltas == {
        "Com_select": 180,
        "Bytes_sent": 180 * 70,
        "Questions": 180,
        "Queries": 180,
        "Innodb_rows_read": 180,
    }


class CountingSession:
    """A session of a server whose counters grow with each of its statements."""

    def __init__(self, number: int, server: dict[str, int]) -> None:
        self.id = number
        self.is_open = True
        self.own = {"Bytes_sent": 0, "Questions": 0}
        self._server = server
        self._selects = 0

    def query(self, sql: str, *values: object) -> list[tuple[str, str]]:
        is_statement_counts = "Com" in sql
        self._selects += not is_statement_counts
        self._count("Questions", 1)
        if "global_status" in sql or "GLOBAL" in sql:
            answer = dict(self._server)
        else:
            answer = {**self.own, "Com_select": self._selects}
        if is_statement_counts:
            answer = {name: n for name, n in answer.items() if name.startswith("Com_")}
            self._server["Handler_write"] += 1  # of SHOW STATUS, which no session has a share of
        self._server["Com_select"] += not is_statement_counts
        self._count("Bytes_sent", 1000)  # once the answer was made
        return [(name, str(count)) for name, count in answer.items()]

    def rows(self, sql: str) -> list[dict[str, object]]:
        raise DatabaseError("not there", kind="absent")

    def columns(self, sql: str) -> tuple[str, ...]:
        raise DatabaseError("not there", kind="absent")

    def literal(self, text: str) -> str:
        return repr(text)

    def _count(self, name: str, more: int) -> None:
        self.own[name] += more
        self._server[name] += more


def test_readings_cost_nothing_that_counters_show() -> None:
    server = {"Bytes_sent": 0, "Questions": 0, "Handler_write": 0, "Com_select": 0}
    one, other = (CountingSession(number, server) for number in (7, 8))
    counters = MysqlStatusCounters(cast(Session, one), MYSQL, "d")
    others = [cast(Session, other)]
    before = counters.read(others)
    for _ in range(5):  # a collector in its own session
        other.query("SELECT * FROM performance_schema.global_status")
    server["Bytes_sent"] += 70
    server["Questions"] += 1
    server["Com_select"] += 1
    after = counters.read(others, at_end=True)
    assert counters.between(before, after).deltas.deltas == {
        "Bytes_sent": 70,
        "Questions": 1,
        "Com_select": 1,
    }


GAUGES = [
    "Innodb_buffer_pool_pages_data", "Innodb_row_lock_time_avg", "Innodb_row_lock_current_waits",
    "Innodb_os_log_pending_fsyncs", "Key_blocks_used", "Open_tables", "Qcache_free_memory",
    "Threads_running",
]  # fmt: skip
COUNTERS = [
    "Innodb_buffer_pool_pages_flushed", "Innodb_buffer_pool_pages_made_young",
    "Innodb_buffer_pool_read_requests", "Innodb_row_lock_time", "Innodb_os_log_written",
    "Key_reads", "Opened_tables", "Qcache_hits", "Ssl_accepts", "Threads_created", "Uptime",
]  # fmt: skip
METRIC_GAUGES = [
    "buffer_flush_batch_pages", "buffer_LRU_batch_flush_pages",
    "buffer_LRU_search_scanned_per_call", "buffer_pool_size", "buffer_flush_adaptive_avg_time_slot",
    "cpu_utime_pct", "lock_rec_locks", "lock_row_lock_time_max", "log_lsn_checkpoint_age",
    "trx_active_transactions",
]  # fmt: skip
METRIC_COUNTERS = [
    "buffer_flush_batch_total_pages", "buffer_flush_batches", "buffer_LRU_batch_flush_total_pages",
    "buffer_LRU_search_scanned", "buffer_index_pages_written", "buffer_pool_reads", "cpu_utime_abs",
    "innodb_rwlock_x_spin_waits", "lock_rec_lock_requests", "lock_row_lock_time", "log_lsn_current",
    "os_log_fsyncs", "trx_rw_commits",
]  # fmt: skip


@pytest.mark.parametrize("family", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
def test_gauges_of_all_servers(family: Observable) -> None:
    found = split_gauges(dict.fromkeys([*GAUGES, *COUNTERS], 1), family.gauges)
    assert [list(each) for each in found] == [COUNTERS, GAUGES]
    found = split_gauges(dict.fromkeys([*METRIC_GAUGES, *METRIC_COUNTERS], 1), family.metric_gauges)
    assert [list(each) for each in found] == [METRIC_COUNTERS, METRIC_GAUGES]


@pytest.mark.parametrize(
    ("family", "name", "is_gauge"),
    [
        (MYSQL, "Innodb_redo_log_current_lsn", False),
        (MYSQL, "Innodb_redo_log_logical_size", True),
        (MYSQL, "Error_log_expired_events", False),
        (MARIADB, "Innodb_history_list_length", True),
        (MARIADB, "Innodb_lsn_current", False),
        (MARIADB, "Innodb_checkpoint_age", True),
        (MARIADB, "Innodb_async_reads_pending", True),
        (MARIADB, "Innodb_async_reads_total_count", False),
        (MARIADB, "Memory_used_initial", True),
        (MARIADB, "wsrep_local_bf_aborts", False),
    ],
)
def test_gauges_of_a_family(family: Observable, name: str, is_gauge: bool) -> None:
    assert (name in split_gauges({name: 1}, family.gauges)[1]) is is_gauge
