from types import SimpleNamespace
from typing import cast

import pytest

from millrace import databases, workloads
from millrace.databases.client import DatabaseClient
from millrace.databases.table_formats import TableFormat
from millrace.errors import TrialFailed, UserError
from millrace.workloads.defaults import UNCOMPRESSED

LEVELS = workloads.parse_workload(workloads.load("load-data")).factors["compression"].choices


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_exists_in_every_family(family: str, level: str) -> None:
    found = databases.get(family).table_formats.resolve("InnoDB", str(level), None)
    assert bool(found.sql) == (level != UNCOMPRESSED)
    assert found.punches_holes == str(level).startswith("page-")


@pytest.mark.parametrize(
    ("family", "version", "level", "sql"),
    [
        ("mysql", "5.5.9", "row", "ROW_FORMAT=COMPRESSED"),
        ("mysql", "9.7.4", "row-4k", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4"),
        ("mysql", "5.7.8", "page-lz4", "COMPRESSION='lz4'"),
        ("mariadb", "10.1.8", "page-zlib", "PAGE_COMPRESSED=1"),
    ],
)
def test_the_statement_of_a_level(family: str, version: str, level: str, sql: str) -> None:
    assert databases.get(family).table_formats.resolve("innodb", level, version).sql == sql


def test_missing_format_is_described() -> None:
    mysql, mariadb = (databases.get(each).table_formats for each in ("mysql", "mariadb"))
    with pytest.raises(UserError, match=r"MySQL 5\.6\.24 has no .*'page-zlib'.* came with 5\.7\.8"):
        mysql.resolve("InnoDB", "page-zlib", "5.6.24")
    with pytest.raises(UserError, match="one of InnoDB's, and the engine is MyISAM"):
        mariadb.resolve("MyISAM", "row", "10.11.19")
    assert mariadb.resolve("MyISAM", UNCOMPRESSED, "10.11.19") == TableFormat("MyISAM")


@pytest.mark.parametrize(
    ("family", "version", "options"),
    [
        ("mysql", "5.5.34", {"innodb_file_format", "innodb_strict_mode", "innodb_file_per_table"}),
        ("mysql", "5.6.24", {"innodb_file_format", "innodb_strict_mode"}),
        ("mysql", "5.7.22", set()),
        ("mariadb", "10.1.23", {"innodb_file_format", "innodb_strict_mode"}),
        ("mariadb", "11.8.9", set()),
    ],
)
def test_old_servers_are_made_to_compress(family: str, version: str, options: set[str]) -> None:
    formats = databases.get(family).table_formats
    assert set(formats.comparable_options(version)) == options
    assert formats.resolve("InnoDB", "row", version).server_options == {}


def test_mariadb_takes_the_algorithm_of_pages_as_an_option() -> None:
    formats = databases.get("mariadb").table_formats
    assert formats.resolve("InnoDB", "page-zlib", "10.1.8").server_options == {
        "innodb_compression_algorithm": "zlib",
        "innodb_use_trim": "1",
    }
    assert formats.resolve("InnoDB", "page-lz4", "10.11.19").server_options == {
        "innodb_compression_algorithm": "lz4",
        "plugin_load_add": "provider_lz4",
    }


def test_a_server_with_another_algorithm_of_pages_is_refused() -> None:
    session = SimpleNamespace(close=lambda: None)
    attached = SimpleNamespace(
        server=SimpleNamespace(name="theirs"),
        connect=lambda *_, **_known: session,
        rows=lambda *_, **_known: [("innodb_compression_algorithm", "none")],
    )
    wanted = TableFormat(None, "page-zlib", "PAGE_COMPRESSED=1", punches_holes=True)
    with pytest.raises(TrialFailed, match="theirs has innodb_compression_algorithm = none, and"):
        databases.get("mariadb").table_formats.verify(
            cast(DatabaseClient, attached), "d", wanted, table_bytes=None
        )
