"""Test the conversion of real servers' Performance Schema summaries to sections."""

from typing import Any

import pytest

from millrace.databases.mysql.wait_statistics import (
    REST,
    Setup,
    classes_off,
    deltas_of,
    digests_of,
    events_of,
    partial,
    require_instruments,
)
from millrace.errors import Unavailable
from tests.support.observables import observable

TABLES = observable("mysql").tables

SELECT = "SELECT `k` FROM `t` WHERE `id` = ? "
UPDATE = "UPDATE `t` SET `k` = `k` + ? WHERE `id` = ? "


NONE = dict.fromkeys(
    ("rows_affected", "tmp_tables", "tmp_disk_tables", "no_index_used", "sort_rows", "errors"), 0
)


def digest(key: str | None, text: str | None, count: int, wait: int = 0) -> dict[str, Any]:
    times = {"wait": wait, "lock": wait // 10, "cpu": wait // 2}
    rows = {"rows_examined": count * 3, "rows_sent": count}
    return {"key": key, "text": text, "count": count, **times, **rows, **NONE}


def test_waits_are_seconds_and_the_longest_is_first() -> None:
    # MySQL 5.6.24, before and after 200 updates
    log, table = "wait/io/file/innodb/innodb_log_file", "wait/io/table/sql/handler"
    before = {log: {"key": log, "count": 31, "wait": 4_501_112_000}}
    after = {
        table: {"key": table, "count": 600, "wait": 5_798_853_060},
        log: {"key": log, "count": 431, "wait": 58_729_340_310},
    }
    events = events_of(deltas_of(before, after))
    assert [(event.name, event.count) for event in events] == [(log, 400), (table, 600)]
    assert events[0].wait_s == pytest.approx(0.054_228_228_31)


def test_no_more_than_200_waits_are_kept() -> None:
    rows = [{"key": str(n), "count": 1, "wait": n * 10**12} for n in range(300)]
    events = events_of(rows)
    assert len(events) == 200
    assert events[0].wait_s == 299


def test_statements_have_their_figures_in_seconds() -> None:
    found, lost = digests_of(
        {"digests": [digest("a", SELECT, 4, 2 * 10**12), digest("b", UPDATE, 2, 5 * 10**12)]},
        reports_cpu=True,
    )
    assert lost == []
    assert [(row.text, row.wait_s) for row in found] == [
        (UPDATE.strip(), 5.0),
        (SELECT.strip(), 2.0),
    ]
    assert found[1].to_json() == {
        "text": SELECT.strip(),
        "count": 4,
        "wait_s": 2.0,
        "lock_s": 0.2,
        "cpu_s": 1.0,
        "rows_examined": 12,
        "rows_sent": 4,
        **NONE,
    }


def test_cpu_time_is_unknown_unless_the_server_takes_it() -> None:
    found, _ = digests_of({"digests": [digest("a", SELECT, 4, 10**12)]}, reports_cpu=False)
    assert found[0].cpu_s is None
    without = {**digest("a", SELECT, 4, 10**12), "cpu": None}
    found, _ = digests_of({"digests": [without]}, reports_cpu=True)
    assert found[0].cpu_s is None


def test_what_sessions_prepared_is_added_up_by_its_text() -> None:
    """In MySQL 5.7 and 8.0 executions have no digest, but a table of their own."""
    text = "SELECT k FROM t WHERE id = ?"
    deltas = {
        "digests": [digest("a", UPDATE, 5, 10**12)],
        "prepared": [digest("17", text, 700, 3 * 10**12), digest("18", text, 300, 10**12)],
        "executions": [digest("statement/com/Execute", None, 1000, 4 * 10**12)],
    }
    found, lost = digests_of(deltas, reports_cpu=True)
    assert lost == []
    assert [(row.text, row.count, row.wait_s, row.cpu_s) for row in found] == [
        (text, 1000, 4.0, 2.0),
        (UPDATE.strip(), 5, 1.0, 0.5),
    ]


def test_executions_with_a_digest_count_once() -> None:
    """Use data of MySQL 9.7."""
    deltas = {
        "digests": [digest("a", f"EXECUTE {SELECT}", 1000, 4 * 10**12)],
        "prepared": [digest("17", "SELECT k FROM t WHERE id = ?", 1000, 4 * 10**12)],
        "executions": [digest("statement/com/Execute", None, 1000, 4 * 10**12)],
    }
    found, lost = digests_of(deltas, reports_cpu=False)
    assert [(row.text, row.count) for row in found] == [(f"EXECUTE {SELECT}".strip(), 1000)]
    assert lost == []


@pytest.mark.parametrize("prepared", [[], [digest("17", "SELECT 1", 0)]], ids=["5.6", "MariaDB"])
def test_undistinguished_executions_are_one_row(prepared: list[dict[str, Any]]) -> None:
    deltas = {
        "digests": [digest("a", SELECT, 5, 10**12)],
        "prepared": prepared,
        "executions": [digest("statement/com/Execute", None, 1000, 4 * 10**12)],
    }
    found, lost = digests_of(deltas, reports_cpu=False)
    rest = next(row for row in found if row.text == REST)
    assert (rest.count, rest.wait_s, rest.rows_examined) == (1000, 4.0, 3000)
    assert "1000 executions of prepared statements" in lost[0].message
    assert lost[0].hint


def test_what_old_versions_do_not_count_is_unknown() -> None:
    """MySQL 5.6.24 and MariaDB 10.1.23 executed 600 times SELECT, UPDATE and COMMIT."""
    execution = {
        **digest("statement/com/Execute", None, 1800, 10**12),
        "lock": 0,
        "rows_examined": 0,
        "rows_sent": 0,
        "rows_affected": 600,
    }
    ((row,), _) = digests_of({"executions": [execution]}, reports_cpu=False)
    assert (row.count, row.wait_s, row.rows_affected, row.errors) == (1800, 1.0, 600, 0)
    assert (row.lock_s, row.rows_sent, row.rows_examined) == (None, None, None)
    assert (row.tmp_tables, row.sort_rows, row.no_index_used) == (None, None, None)


def test_digests_beyond_the_table_size_are_reported() -> None:
    rows = [digest("a", SELECT, 500, 10**12), digest(None, None, 400)]
    found, lost = digests_of({"digests": rows}, reports_cpu=False)
    assert [row.count for row in found] == [500]
    assert "400 statements" in lost[0].message
    assert lost[0].hint is not None
    assert "performance_schema_digests_size" in lost[0].hint
    few = [digest("a", SELECT, 500, 10**12), digest(None, None, 4)]
    assert digests_of({"digests": few}, reports_cpu=False)[1] == []


def test_nothing_to_tell() -> None:
    assert digests_of({}, reports_cpu=True) == ([], [])
    assert events_of([]) == []


AS_DELIVERED = Setup(
    instruments={
        "wait/synch/mutex/sql/LOCK_open": False,
        "wait/synch/mutex/innodb/log_sys_mutex": False,
        "wait/io/file/sql/binlog": True,
        "wait/io/table/sql/handler": True,
        "stage/sql/copy to tmp table": True,
        "stage/sql/executing": False,
        "stage/sql/end": False,
        "statement/sql/select": True,
    },
    consumers={"global_instrumentation": True, "statements_digest": True},
)


def test_what_is_delivered_has_some_classes_off() -> None:
    for name in ("waits", "stages", "digests"):
        require_instruments(TABLES[name], AS_DELIVERED)
    assert classes_off(TABLES["waits"], AS_DELIVERED) == ("wait/synch/mutex",)
    assert classes_off(TABLES["stages"], AS_DELIVERED) == ("stage/sql",)
    assert classes_off(TABLES["digests"], AS_DELIVERED) == ()
    lack = partial(TABLES["waits"], ("wait/synch/mutex",))
    assert "wait/synch/mutex" in lack.message
    assert "performance_schema_instrument = 'wait/%=ON'" in (lack.hint or "")


FRM = "wait/io/file/sql/FRM"


@pytest.mark.parametrize(
    ("name", "instruments", "consumers", "said", "hint"),
    [
        ("waits", {FRM: False}, {}, "all instruments wait/% are off", "wait/%=ON"),
        ("stages", {FRM: True}, {}, "all instruments stage/sql/%", "stage/sql/%"),
        (
            "waits",
            {FRM: True},
            {"global_instrumentation": False},
            "the consumer global_instrumentation is off",
            "performance_schema_consumer_global_instrumentation = ON",
        ),
        (
            "digests",
            {"statement/sql/select": True},
            {"statements_digest": False},
            "the consumer statements_digest is off",
            "performance_schema_consumer_statements_digest = ON",
        ),
    ],
)
def test_tables_into_which_nothing_comes(
    name: str, instruments: dict[str, bool], consumers: dict[str, bool], said: str, hint: str
) -> None:
    with pytest.raises(Unavailable) as caught:
        require_instruments(TABLES[name], Setup(instruments, consumers))
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")
