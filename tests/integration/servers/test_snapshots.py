"""Test snapshots of real servers: the oldest and newest of both families, and some in between."""

import os
import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.databases.mysql import table_samples
from millrace.errors import TrialFailed
from millrace.servers import snapshots
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import NotSaved
from tests.conftest import Fitted, Initialise, InstanceOf, ServerOf

pytestmark = pytest.mark.integration

REDO = {"innodb_log_file_size": "24M"}
CAPACITY = {"innodb_redo_log_capacity": "32M"}
BINARY_LOG = {"log_bin": "binlog", "server_id": "1"}
CASES = [
    ("mysql-5.5.9", {}),
    ("mysql-5.5.9", REDO),
    ("mysql-5.6.24", {**REDO, **BINARY_LOG, "innodb_page_size": "8k"}),
    ("mysql-5.7.22", {"innodb_buffer_pool_filename": "pool", "innodb_undo_tablespaces": "2"}),
    ("mysql-8.0.12", REDO),
    ("mysql-9.7.4", {}),
    ("mysql-9.7.4", {**CAPACITY, "innodb_page_size": "4k"}),
    ("mariadb-10.1.8", REDO),
    ("mariadb-10.11.19", {**BINARY_LOG, "innodb_undo_tablespaces": "3"}),
    ("mariadb-11.8.9", REDO),
]

ROWS = 3_000

# Tables with other keys than a number, and with none; columns and rows.
OTHERS = {
    "by_text": (
        "id varchar(20) CHARACTER SET utf8 PRIMARY KEY, b blob, f double, e enum('x', 'y')",
        ",".join(f"('ä`{i}', NULL, {i / 7}, 'y')" for i in range(300)),
    ),
    "by_bytes": (
        "id binary(4), n int, s date, PRIMARY KEY (id, n)",
        ",".join(f"(0x{i // 50:08x}, {i}, '2020-01-01')" for i in range(300)),
    ),
    "by_prefix": ("id text, d decimal(9, 3), PRIMARY KEY (id(3))", "('abc', 1.5), ('x', NULL)"),
    "without_key": ("id int, t timestamp NULL", ",".join(f"({i}, NULL)" for i in range(2_000))),
    "`of one's`": ("`a``b` bit(3)", "(b'101')"),
    "one": ("id int PRIMARY KEY", "(1)"),
}

# A change of a table, its name, and whether reading all its rows (True) or samples (False) detects
# it.
DAMAGES = [
    ("UPDATE d.t SET c = 'x' WHERE id = 1561", "d.t", (True,)),
    ("DELETE FROM d.t WHERE id > 2900", "d.t", (True, False)),
    ("DROP TABLE d.m", "d.m", (True, False)),
    ("UPDATE d.by_text SET e = NULL WHERE f = 0", "d.by_text", (True, False)),
    ("UPDATE d.by_bytes SET n = n + 1000", "d.by_bytes", (True, False)),
    ("UPDATE d.by_prefix SET d = 2 WHERE id = 'x'", "d.by_prefix", (True,)),
    ("DELETE FROM d.without_key WHERE id > 700", "d.without_key", (True, False)),
    ("UPDATE d.`of one's` SET `a``b` = 0", "d.of one's", (True,)),
    ("ALTER TABLE d.one CHANGE id other int", "d.one", (True, False)),
]


def load(instance: Instance) -> None:
    instance.query("CREATE DATABASE d")
    instance.query(
        "CREATE TABLE d.t (id int PRIMARY KEY, k int, c varchar(200), KEY (k)) ENGINE=InnoDB"
    )
    draw = random.Random(1)
    rows = ",".join(f"({i}, {draw.randrange(ROWS)}, '{i:0>180}')" for i in range(ROWS))
    instance.query(f"INSERT INTO d.t VALUES {rows}")
    instance.query("UPDATE d.t SET k = k + 1")
    instance.query("DELETE FROM d.t WHERE id % 5 = 0")
    instance.query("CREATE TABLE d.m (id int PRIMARY KEY) ENGINE=MyISAM")
    instance.query("INSERT INTO d.m VALUES (7)")
    for name, (columns, rows) in OTHERS.items():
        instance.query(f"CREATE TABLE d.{name} ({columns}) ENGINE=InnoDB")
        instance.query(f"INSERT INTO d.{name} VALUES {rows}")


def found_in(instance: Instance) -> list[tuple[str | None, ...]]:
    return [
        *instance.query("SELECT count(*), sum(k), sum(crc32(c)) FROM d.t"),
        *instance.query("SELECT count(k), sum(k) FROM d.t FORCE INDEX (k)"),
        *instance.query("SELECT id FROM d.m"),
        *instance.query("CHECK TABLE d.t"),
    ]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_restored_server_is_as_the_loaded_one_was(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise, name: str, options: dict[str, str]
) -> None:
    server, given = server_of(name), fitted(**options)
    with lifecycle.create(server, given) as instance:
        wanted = snapshots.key(server, given, {"rows": ROWS}, user=instance.runs_as)
        assert snapshots.find(wanted) is None
        initialise(instance)
        instance.start(60)
        load(instance)
        expected = found_in(instance)
        recorded = snapshots.prepare(instance)
        instance.stop(120)
        made = snapshots.save(instance, wanted, {"rows": ROWS}, made_s=1, tables=recorded)
        snapshots.restore(instance, made)
        contents = {path.name for path in instance.data_dir.iterdir()}
        instance.start(60)
        assert found_in(instance) == expected
        instance.kill()  # changes of its copies must not reach the snapshot
    with lifecycle.create(server, given) as instance:
        snapshot = snapshots.find(wanted)
        assert snapshot == made
        restored = snapshots.restore(instance, made)
        assert restored.bytes == made.bytes
        assert {path.name for path in instance.data_dir.iterdir()} == contents
        assert instance.data_dir.stat().st_uid == (instance.data_dir / "d").stat().st_uid
        instance.start(60)
        assert found_in(instance) == expected
        assert instance.trouble() is None
        log = instance.log_tail(1000)
        assert "ib_buffer_pool" not in "".join(ln for ln in log.splitlines() if "ERROR" in ln)
        assert "crash recovery" not in log.lower()
        for whole in (True, False):
            snapshots.verify_tables(instance, made, whole=whole)
        for statement, table, seen in DAMAGES:
            instance.query(statement)
            [kept] = [each for each in made.tables if each.name == table]
            alone = replace(made, tables=(kept,))
            for whole in (True, False):
                with pytest.raises(TrialFailed) if whole in seen else nullcontext() as refused:
                    snapshots.verify_tables(instance, alone, whole=whole)
                assert refused is None or f"table {table} differs" in str(refused.value)
        instance.query("INSERT INTO d.t VALUES (-1, 1, 'new')")
        instance.stop(120)
    snapshots.remove(made.name)


def test_no_binary_log_of_the_loading_is_kept(server_of: ServerOf, fitted: Fitted) -> None:
    server, nothing = server_of("mysql-9.7.4"), fitted()
    with lifecycle.create(server, nothing) as instance:
        instance.initialise(120)
        instance.start(60)
        load(instance)
        before = sum(path.stat().st_size for path in instance.data_dir.glob("binlog.0*"))
        snapshots.prepare(instance)
        instance.stop(120)
        after = sum(path.stat().st_size for path in instance.data_dir.glob("binlog.0*"))
    assert before > 100_000
    assert after < 1_000


def test_a_running_server_is_not_saved(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.7.22") as instance:
        wanted = snapshots.key(instance.server, instance.options, {}, user=instance.runs_as)
        with pytest.raises(ValueError, match="is running"):
            snapshots.save(instance, wanted, {}, made_s=1)


def test_tables_in_memory_have_no_snapshot(instance_of: InstanceOf) -> None:
    with instance_of("mariadb-10.11.19") as instance:
        instance.query("CREATE DATABASE d")
        snapshots.prepare(instance)
        instance.query("CREATE TABLE d.m (id int) ENGINE=MEMORY")
        with pytest.raises(NotSaved, match=r"d\.m is a MEMORY table"):
            snapshots.prepare(instance)


def test_many_tables_are_read_at_even_distances(
    instance_of: InstanceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_samples, "MOST_TABLES", 3)
    monkeypatch.setattr(table_samples, "MOST_PARTS", 30)
    with instance_of("mariadb-10.11.19") as instance:
        instance.query("CREATE DATABASE d")
        for number in (0, 1, 2, 3, 5):
            instance.query(f"CREATE TABLE d.t{number} (a int, b int, PRIMARY KEY (a, b))")
        rows = ",".join(f"({i % 4}, {i})" for i in range(400))  # four values that many rows share
        instance.query(f"INSERT INTO d.t2 VALUES {rows}")
        instance.query("CREATE TABLE d.t4 (a int PRIMARY KEY, b longtext)")
        instance.query("INSERT INTO d.t4 VALUES (1, repeat('x', 100000)), (2, ''), (3, '')")
        recorded = snapshots.prepare(instance)
        # The first rows, those from each of four values on, and the last ones; long rows one by
        # one.
        found = [(each.name, each.sample.rows, len(each.sample.statements)) for each in recorded]
        assert found == [("d.t0", 0, 2), ("d.t2", 32 * 6, 6), ("d.t4", 1 + 3, 4)]
        assert {each.whole for each in recorded} == {None}


def test_a_snapshot_of_another_size_of_redo_is_not_taken(
    server_of: ServerOf, fitted: Fitted
) -> None:
    server = server_of("mysql-5.5.9")
    keys = {snapshots.key(server, fitted(**o), {}, user="me").name for o in ({}, REDO)}
    assert len(keys) == 2


def test_a_truncated_snapshot_does_not_reach_a_server(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise
) -> None:
    server, nothing = server_of("mysql-5.7.22"), fitted()
    with lifecycle.create(server, nothing) as instance:
        wanted = snapshots.key(server, nothing, {"of": "truncated"}, user=instance.runs_as)
        initialise(instance)
        made = snapshots.save(instance, wanted, {}, made_s=1)
        file: Path = made.data_dir / "ibdata1"
        os.truncate(file, file.stat().st_size // 2)
        with pytest.raises(snapshots.Unusable, match="ibdata1 was changed"):
            snapshots.restore(instance, made)
        assert snapshots.find(wanted) is None
        instance.initialise(120)
        instance.start(60)
        assert instance.version().startswith("5.7.22")
        with pytest.raises(TrialFailed):
            instance.query("SELECT nothing")
