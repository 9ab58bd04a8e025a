"""Test tables of a workload on real servers: loaded by every method, verified, read into memory."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving

pytestmark = pytest.mark.integration

SERVERS = ["mysql-5.5.9", "mysql-5.7.22", "mysql-9.7.4", "mariadb-10.1.23", "mariadb-11.8.9"]
OLD, NEW = "mysql-5.7.22", "mariadb-11.8.9"
ROWS = 3_000
NO_LOCAL_FILE = ("1148", "3948", "4166")

SBTEST = {
    "name": "sbtest{n}",
    "count": "{tables}",
    "rows": "{table_size}",
    "create": (
        "CREATE TABLE {table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER NOT NULL DEFAULT 0,"
        " c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id))"
        " ENGINE={engine}"
    ),
    "after_load": ["CREATE INDEX k_{n} ON {table} (k)"],
    "warm": [
        "SELECT count(length(pad)) FROM {table}",
        "SELECT count(k) FROM {table} FORCE INDEX (k_{n})",
    ],
    "columns": [
        {"name": "id", "kind": "sequence", "first": 1},
        {"name": "k", "kind": "integer", "low": 1, "high": "{table_size}"},
        {"name": "c", "kind": "digits", "groups": 10, "length": 11},
        {"name": "pad", "kind": "digits", "groups": 5, "length": 11},
    ],
}

# Every kind of column, and names and character sets that need care.
MIXED = {
    "name": "mixed",
    "rows": "{table_size}",
    "create": (
        "CREATE TABLE `{table}` (`order` BIGINT NOT NULL, `k` INT, `twice` BIGINT,"
        " `price` DECIMAL(6,2), `we``ird` VARCHAR(20), `fixed` VARCHAR(20), PRIMARY KEY (`order`))"
        " ENGINE={engine} CHARACTER SET utf8"
    ),
    "columns": [
        {"name": "order", "kind": "sequence", "first": -7, "step": 3},
        {"name": "k", "kind": "integer", "low": -9, "high": 9, "distribution": "normal"},
        {"name": "twice", "kind": "derived", "from": "k", "times": 2, "plus": 1},
        {"name": "price", "kind": "decimal", "low": -99.99, "high": 99.99, "scale": 2},
        {"name": "we`ird", "kind": "text", "length": 1, "max_length": 20, "binary": True},
        {"name": "fixed", "kind": "constant", "value": 'of {engine}, "so"'},
    ],
}

LOAD = {"name": "load", "kind": "load_tables"}
VERIFY = {"name": "verify", "kind": "verify_tables"}
WARM = {"name": "warm", "kind": "warm_tables"}

Phase = Mapping[str, Any]

# Slow features that do not matter here.
UNSAFE = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}


@pytest.fixture(scope="module", params=SERVERS)
def instance(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    with instance_of(request.param, **UNSAFE) as instance:
        yield instance


@pytest.fixture(scope="module")
def new(instance_of: InstanceOf) -> Iterator[Instance]:
    with instance_of(NEW, **UNSAFE) as instance:
        yield instance


def run(
    instance: Instance,
    *phases: Phase,
    sets: Mapping[str, Any] | None = None,
    on_event: Callable[[driving.Event, int], None] = lambda _event, _pid: None,
    **values: str | int,
) -> driving.Done:
    limited = [{"limit_s": driving.LIMIT_S, **phase} for phase in phases]
    zone = ["SET time_zone = '+00:00'"]
    spec = driving.specification(
        driving.by_socket(instance, database="d"), *limited, session=zone, seed=5
    )
    own = {
        "workload": {"tables": sets or {"sbtest": SBTEST}},
        "defaults": {"tables": 3, "table_size": ROWS, "engine": "InnoDB"},
        "values": values,
    }
    return driving.run({**spec, **own}, on_event)


def fresh_database(instance: Instance) -> None:
    instance.query("DROP DATABASE IF EXISTS d")
    instance.query("CREATE DATABASE d CHARACTER SET latin1")


def number(instance: Instance, sql: str) -> int:
    return int(instance.query(sql)[0][0] or 0)


def test_every_method_loads_the_same_rows(instance: Instance) -> None:
    methods: list[dict[str, Any]] = [
        {"method": "auto"},
        {"method": "auto", "threads": 3},
        {"method": "multi_row", "threads": 2},
        {"method": "multi_row", "lock_tables": True},
        {"method": "single_row", "threads": 3},
        {"method": "single_row", "threads": 3, "lock_tables": True},
    ]
    checksums = set()
    for method in methods:
        fresh_database(instance)
        ran = run(instance, {**LOAD, **method}, VERIFY, WARM, table_size=500)
        assert ran.status == 0, ran.events
        load = ran.phase("load")
        assert load["method"] == method["method"].replace("auto", "local")
        assert load["method_reason"] is None
        assert [table["name"] for table in load["tables"]] == ["sbtest1", "sbtest2", "sbtest3"]
        assert [table["rows"] for table in load["tables"]] == [500] * 3
        assert load["rows_sent"] == 1_500
        assert load["bytes_sent"] == sum(table["bytes"] for table in load["tables"])
        assert load["warnings"] == 0
        checksums.add(tuple(table["checksum"] for table in load["tables"]))
        for n in (1, 2, 3):
            table = f"d.sbtest{n}"
            assert number(instance, f"SELECT count(*) FROM {table}") == 500
            indexes = {row[2] for row in instance.query(f"SHOW INDEX FROM {table}")}
            assert indexes == {"PRIMARY", f"k_{n}"}
    assert len(checksums) == 1


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_every_kind_of_column_arrives(instance: Instance, engine: str) -> None:
    for method in ("local", "multi_row"):
        fresh_database(instance)
        load = {**LOAD, "method": method}
        ran = run(instance, load, VERIFY, sets={"mixed": MIXED}, engine=engine)
        assert ran.status == 0, ran.events
        assert ran.phase("verify")["rows"] == ROWS


def test_rows_are_inserted_without_local_infile(instance: Instance) -> None:
    instance.query("SET GLOBAL local_infile = 0")
    try:
        fresh_database(instance)
        ran = run(instance, LOAD, VERIFY)
        assert ran.status == 0, ran.events
        assert ran.phase("load")["method"] == "multi_row"
        assert ran.phase("load")["method_reason"] == "the server's local_infile is off"
        fresh_database(instance)
        ran = run(instance, {**LOAD, "method": "local"})
        assert ran.status == 1
        assert ran.error["code"] in NO_LOCAL_FILE
        assert ran.error["message"].startswith("table sbtest")
    finally:
        instance.query("SET GLOBAL local_infile = 1")


def test_statements_stay_below_max_allowed_packet(instance_of: InstanceOf) -> None:
    with instance_of(OLD, max_allowed_packet="16384") as instance:
        fresh_database(instance)
        ran = run(instance, {**LOAD, "method": "multi_row"}, VERIFY, tables=1)
        assert ran.status == 0, ran.events
        inserts = {
            name: int(value or 0)
            for name, value in instance.query("SHOW GLOBAL STATUS LIKE 'Com_insert'")
        }
        assert inserts["Com_insert"] >= ROWS * 190 // 16_384


# Types that show another text than was sent for the same value.
BY_VALUE = {
    "name": "people",
    "rows": "{table_size}",
    "create": (
        "CREATE TABLE {table} (id INT(6) ZEROFILL NOT NULL PRIMARY KEY, born DATE, seen DATETIME,"
        " woken TIME, salary DOUBLE, height FLOAT, share DECIMAL(9,4), note VARCHAR(20))"
        " ENGINE={engine}"
    ),
    "columns": [
        {"name": "id", "kind": "sequence"},
        {"name": "born", "kind": "computed", "value": "19700101 + id % 28"},
        {"name": "seen", "kind": "computed", "value": "20200101000000 + id % 60"},
        {"name": "woken", "kind": "computed", "value": "61500 + id % 60"},
        {"name": "salary", "kind": "decimal", "low": -90000, "high": 90000, "scale": 2},
        {"name": "height", "kind": "decimal", "low": 0, "high": 3, "scale": 2},
        {"name": "share", "kind": "decimal", "low": -1, "high": 1, "scale": 2},
        {"name": "note", "kind": "text", "length": 1, "max_length": 20},
    ],
}


def test_values_that_show_another_text_are_verified_by_value(instance: Instance) -> None:
    for method in ("local", "multi_row"):
        fresh_database(instance)
        ran = run(instance, {**LOAD, "method": method}, VERIFY, sets={"people": BY_VALUE})
        assert ran.status == 0, ran.events
    for change, message in (
        ("born = '1970-01-05' WHERE id = 77", "column born: sent '19700122', found '1970-01-05'"),
        ("salary = salary + 0.01 WHERE id = 77", "column salary: sent '"),
        ("note = NULL WHERE id = 77", ", found NULL where id = 77"),
    ):
        instance.query(f"UPDATE d.people SET {change}")
        error = run(instance, VERIFY, sets={"people": BY_VALUE}).error
        assert (error["kind"], error["message"][:14]) == ("mismatch", "table people: ")
        assert message in error["message"]
        assert " where id = 77" in error["message"]
        fresh_database(instance)
        run(instance, LOAD, sets={"people": BY_VALUE})
    instance.query("UPDATE d.people SET note = 'x', share = 7")
    error = run(instance, VERIFY, sets={"people": BY_VALUE}).error
    assert "column share: " in error["message"]
    assert "; column note: " in error["message"]


PARENT = {
    "name": "parent",
    "rows": "{table_size}",
    "create": "CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY) ENGINE={engine}",
    "columns": [{"name": "id", "kind": "sequence"}],
}
CHILD = {
    "name": "a_child{n}",
    "count": 3,
    "rows": "{table_size}",
    "create": (
        "CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY, parent INT, other INT,"
        " FOREIGN KEY (parent) REFERENCES parent (id)) ENGINE={engine}"
    ),
    "after_load": ["ALTER TABLE {table} ADD FOREIGN KEY (other) REFERENCES parent (id)"],
    "columns": [
        {"name": "id", "kind": "sequence"},
        {"name": "parent", "kind": "integer", "low": 1, "high": "{table_size}"},
        {"name": "other", "kind": "integer", "low": 1, "high": "{table_size}"},
    ],
}


def test_tables_with_foreign_keys_load_whatever_their_order(instance: Instance) -> None:
    sets = {"child": CHILD, "parent": PARENT}
    for load in ({"threads": 4}, {"threads": 2, "chunk_rows": 500}, {"method": "multi_row"}):
        fresh_database(instance)
        ran = run(instance, {**LOAD, **load}, VERIFY, sets=sets)
        assert ran.status == 0, ran.events
        assert [table["rows"] for table in ran.phase("load")["tables"]] == [ROWS] * 4
        created = str(instance.query("SHOW CREATE TABLE d.a_child3")[0][1])
        assert created.count("FOREIGN KEY") == 2


def test_failed_statement_is_in_the_error(new: Instance) -> None:
    fresh_database(new)
    sent = "CREATE PROCEDURE work()\nBEGIN SELECT 1"
    ran = run(new, {"name": "routine", "kind": "statement", "sql": [sent]})
    assert ran.error["code"] == "1064"
    assert ran.error["statement"] == sent
    sets = {"parent": {**PARENT, "after_load": ["ALTER TABLE {table} ADD x"]}}
    error = run(new, LOAD, sets=sets).error
    assert error["statement"] == "ALTER TABLE parent ADD x"
    assert "1064" not in error["message"]


def test_a_changed_row_is_a_mismatch_that_names_table_and_value(instance_of: InstanceOf) -> None:
    with instance_of(OLD) as instance:
        fresh_database(instance)
        run(instance, LOAD)
        for change, message in (
            ("UPDATE d.sbtest2 SET k = k + 1 WHERE id = 7", "column k: sent '"),
            ("DELETE FROM d.sbtest2 WHERE id = 7", f"found {ROWS - 1} rows, expected {ROWS}"),
            ("DELETE FROM d.sbtest2", f"found 0 rows, expected {ROWS}"),
        ):
            instance.query(change)
            ran = run(instance, VERIFY)
            assert ran.status == 1
            error = ran.error
            assert (error["phase"], error["kind"]) == ("verify", "mismatch")
            assert f"table sbtest2: {message}" in error["message"]


def test_an_error_of_one_table_ends_all_with_its_words(new: Instance) -> None:
    fresh_database(new)
    new.query("CREATE TABLE d.sbtest2 (a INT)")
    ran = run(new, {**LOAD, "threads": 2}, tables=8, table_size=200_000)
    assert ran.status == 1
    error = ran.error
    assert (error["phase"], error["code"], error["sqlstate"]) == ("load", "1050", "42S01")
    assert error["message"].startswith("table sbtest2: ")
    # The load of the first table may have begun; it did not end, and no other began.
    others = {row[0] for row in new.query("SHOW TABLES FROM d")} - {"sbtest2"}
    assert others <= {"sbtest1"}
    for table in others:
        assert number(new, f"SELECT count(*) FROM d.{table}") == 0


def test_a_time_limit_ends_a_load(new: Instance) -> None:
    fresh_database(new)
    ran = run(new, {**LOAD, "limit_s": 0.5}, table_size=10**9)
    assert ran.status == 1
    assert ran.error["kind"] == "time_limit"


@pytest.mark.parametrize("ends", ["interrupted", "server killed"])
def test_load_reports_the_reason_when_it_ends_early(instance_of: InstanceOf, ends: str) -> None:
    with instance_of(NEW) as instance:
        fresh_database(instance)

        def end(event: driving.Event, pid: int) -> None:
            if event["type"] == "interval" and event["rows"] > 0:
                if ends == "interrupted":
                    driving.interrupt(pid)
                else:
                    instance.kill()

        ran = run(instance, LOAD, on_event=end, table_size=10**9)
        status = (130, "interrupted") if ends == "interrupted" else (1, "connection")
        assert (ran.status, ran.error["kind"]) == status
