"""Test that real servers settle unchanged, and that reads from files are recorded."""

import contextlib
import random

import pytest

from millrace.databases.base import PoolStatus
from millrace.databases.mysql.storage import PendingWork
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.instance import Instance
from millrace.trial import buffer_pool, client_preparation
from tests.conftest import InstanceOf

pytestmark = pytest.mark.integration

NAMES = ["mysql-5.5.9", "mysql-5.7.22", "mysql-9.7.4", "mariadb-10.1.23", "mariadb-11.8.9"]
ROWS = 80_000


def make_work(instance: Instance) -> None:
    """Leave dirty pages and undo records behind."""
    instance.query("CREATE DATABASE d")
    instance.query(
        "CREATE TABLE d.t (id int PRIMARY KEY AUTO_INCREMENT, k int, c char(160), KEY (k)) "
        "ENGINE=InnoDB DEFAULT CHARSET=latin1"
    )
    rows = ",".join(f"({i * 7919 % 10007}, '{i}')" for i in range(ROWS // 16))
    instance.query(f"INSERT INTO d.t (k, c) VALUES {rows}")
    for _ in range(4):
        instance.query("INSERT INTO d.t (k, c) SELECT k + id * 31 % 100003, c FROM d.t")
    instance.query("UPDATE d.t SET k = k + 1 WHERE id % 3 = 0")


def pending(instance: Instance) -> PendingWork:
    work = instance.family.storage.pending(instance)
    assert isinstance(work, PendingWork)
    return work


@pytest.mark.parametrize("name", NAMES)
def test_a_server_settles_and_is_as_before(instance_of: InstanceOf, name: str) -> None:
    """Test too that its tables, which fit into memory, are then read from there."""
    # Strict mode refuses what the server would otherwise only correct.
    with instance_of(
        name, sql_mode="STRICT_ALL_TABLES", innodb_buffer_pool_size="128M"
    ) as instance:
        make_work(instance)
        before = instance.settings()
        first = pending(instance)
        result = client_preparation.quiesce(instance, limit_s=120)
        last = pending(instance)
        assert result.settled, result.unsettled
        assert result.unsettled == ()
        assert "innodb_max_dirty_pages_pct" in result.forced_flushing
        assert (first.dirty_pages or 0) > 100
        assert (last.dirty_pages or 0) <= 16
        # 5.5 stays behind by a transaction or two when nothing is left to purge.
        assert last.purged or (last.history or 0) <= 16, last
        after = instance.settings()
        for variable in result.forced_flushing:
            assert after[variable] == before[variable]
        assert cache_of(instance) == ("cached", True, True)


def test_quiesce_reports_pending_work_at_its_limit(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.5.9") as instance:
        make_work(instance)
        before = instance.settings()
        result = client_preparation.quiesce(instance, limit_s=0)
        assert not result.settled
        assert result.unsettled
        assert instance.settings() == before


def test_a_server_that_is_not_ours_is_only_watched(instance_of: InstanceOf) -> None:
    with instance_of("mariadb-10.11.19") as instance:
        dsn = f"mysql://root:{instance.password}@127.0.0.1:{instance.port}/"
        attached = AttachedInstance(AttachedServer("theirs", "mariadb", dsn))
        result = client_preparation.quiesce(attached, limit_s=60)
        assert result.forced_flushing == ()
        assert result.settled, result.unsettled


def read_rows(instance: Instance, statements: int) -> PoolStatus:
    draw = random.Random(1)
    with contextlib.closing(instance.connect("d")) as session:
        for _ in range(statements):
            session.query(f"SELECT c FROM t WHERE id = {draw.randrange(1, ROWS)}")
    return instance.family.storage.pool_status(instance)


def cache_of(instance: Instance) -> tuple[str, bool | None, bool | None]:
    """Read all rows, then some; return the mode, and whether the tables can fit and are there."""
    instance.query("ANALYZE TABLE d.t")
    instance.query("SELECT count(length(c)) FROM d.t FORCE INDEX (PRIMARY)")
    tables = instance.family.administration.table_sizes(instance, "d")
    (table,) = tables
    assert (table.name, table.engine.lower()) == ("t", "innodb")
    assert 10e6 < table.data_bytes < 40e6
    assert 0.5e6 < table.index_bytes < 8e6
    before = instance.family.storage.pool_status(instance)
    held = buffer_pool.occupancy(tables, before)
    found = buffer_pool.cache_mode(tables, before, read_rows(instance, 1500))
    return found.mode, held.can_fit, held.is_resident


@pytest.mark.parametrize("name", ["mysql-5.5.9", "mysql-9.7.4", "mariadb-11.8.9"])
def test_tables_that_do_not_fit_are_read_from_files(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name, innodb_buffer_pool_size="8M") as instance:
        make_work(instance)
        # Purge requests pages too, but fetches few of them.
        assert client_preparation.quiesce(instance, limit_s=120).settled
        assert cache_of(instance) == ("io_bound", False, False)
