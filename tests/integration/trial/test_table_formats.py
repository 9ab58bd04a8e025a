"""Test on real servers that compressed tables are verified, and that other ones are refused."""

import contextlib
from collections.abc import Iterator

import pytest

from millrace import databases
from millrace.databases.base import Family
from millrace.databases.table_formats import FileBytes, TableFormat
from millrace.errors import TrialFailed
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.trial.data_directory import DATABASE
from millrace.trial.sizes import sizes, table_bytes
from tests.conftest import ServerOf

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["mysql-5.6.24", "mysql-5.7.22", "mariadb-10.11.19"])
def instance(request: pytest.FixtureRequest, server_of: ServerOf) -> Iterator[Instance]:
    server = server_of(request.param)
    formats = databases.get(server.family).table_formats
    compressing = formats.resolve("InnoDB", "page-zlib", None)
    with started(server, compressing) as instance:
        yield instance


@contextlib.contextmanager
def started(server: InstalledServer, *wanted: TableFormat) -> Iterator[Instance]:
    options = [
        option
        for each in (
            databases.get(server.family).table_formats.comparable_options(server.version),
            *(table_format.server_options for table_format in wanted),
        )
        for option in each.items()
    ]
    applied = tuple(Option(name, value, False, "test") for name, value in options)
    with lifecycle.create(server, FittedOptions("test", applied)) as instance:
        instance.initialise(120)
        instance.start(120)
        instance.family.administration.create_database(instance, DATABASE, 60)
        yield instance


def verify(instance: Instance, table_format: TableFormat) -> None:
    family: Family = instance.family

    def bytes_of(table: str) -> FileBytes:
        return table_bytes(instance.data_dir, family.snapshots, table)

    family.table_formats.verify(instance, DATABASE, table_format, bytes_of)
    with contextlib.closing(instance.connect(DATABASE)) as session:
        assert session.query("SHOW TABLES") == []


def resolved(instance: Instance, level: str) -> TableFormat:
    server = instance.server
    assert isinstance(server, InstalledServer)
    return instance.family.table_formats.resolve("InnoDB", level, server.version)


@pytest.mark.parametrize("level", ["none", "row", "row-4k"])
def test_rows_are_compressed(instance: Instance, level: str) -> None:
    verify(instance, resolved(instance, level))


def test_pages_are_compressed_where_a_version_can(instance: Instance) -> None:
    if instance.server.name == "mysql-5.6.24":
        newer = instance.family.table_formats.resolve("InnoDB", "page-zlib", "5.7.8")
        with pytest.raises(TrialFailed, match=r"mysql-5\.6\.24 does not make tables with"):
            verify(instance, newer)
    else:
        verify(instance, resolved(instance, "page-zlib"))


def test_tables_that_stay_plain_are_refused(instance: Instance) -> None:
    other = TableFormat("InnoDB", "row", "ROW_FORMAT=COMPACT")
    with pytest.raises(TrialFailed, match="makes other tables than"):
        verify(instance, other)
    plain = TableFormat("InnoDB", "page-zlib", "ROW_FORMAT=COMPACT", punches_holes=True)
    with pytest.raises(TrialFailed, match="of the same text take"):
        verify(instance, plain)


def test_plugins_of_a_build_are_loaded_and_measured(server_of: ServerOf) -> None:
    server = server_of("mariadb-10.11.19-plugins")
    formats = databases.get(server.family).table_formats
    pages, rocks = (
        formats.resolve("InnoDB", "page-lz4", server.version),
        formats.resolve("RocksDB", "none", server.version),
    )
    with started(server, pages, rocks) as instance:
        for each in (pages, rocks):
            verify(instance, each)
        with contextlib.closing(instance.connect(DATABASE)) as session:
            session.query("CREATE TABLE t (id INT PRIMARY KEY, c CHAR(60)) ENGINE=RocksDB")
            session.query("INSERT INTO t SELECT seq, UUID() FROM seq_1_to_1000")
        assert instance.family.administration.count_rows(instance, DATABASE, 60) == 1000
        for statement in rocks.before_stop:
            instance.query(statement, limit_s=60)
        instance.stop(60)
        measured = {
            each.name: each.value
            for each in sizes(instance.data_dir, instance.family.snapshots, 1000)
        }
    assert measured["table_allocated_bytes"] > 1000 * 36 / 2


def test_an_engine_that_is_not_there_is_refused(instance: Instance) -> None:
    with pytest.raises(TrialFailed, match=r"has no engine RocksDB; it has .*InnoDB"):
        verify(instance, TableFormat("RocksDB"))
