import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millrace
from millrace import databases
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers import snapshots
from tests.support.installed import installed

DATA = {"tables": ["sbtest1"], "rows": 10, "seed": 1}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> InstalledServer:
    program = tmp_path_factory.mktemp("server") / "mysqld"
    program.write_bytes(b"a program")
    return installed(program.parent)


def fitted(**options: str | None) -> FittedOptions:
    return FittedOptions("any", tuple(Option(n, v, False, "any") for n, v in options.items()))


def name_of(server: InstalledServer, options: FittedOptions, data: Any = None) -> str:
    return snapshots.key(server, options, data or DATA, user="mysql").name


def test_the_digest_is_that_of_the_plain_data(server: InstalledServer) -> None:
    options = fitted(innodb_page_size="8k", skip_log_bin=None)
    found = snapshots.key(server, options, DATA, user="mysql")
    assert found.parts.to_json() == {
        "format": 4,
        "millrace": millrace.__version__,
        "server": {
            "name": "mysql-8.0.33",
            "family": "mysql",
            "version": "8.0.33",
            "program_sha256": hashlib.sha256(b"a program").hexdigest(),
            "artefacts": [each.sha256 for each in server.provenance.artefacts],
        },
        "user": "mysql",
        "options": [["innodb_page_size", "8k"], ["skip_log_bin", None]],
        "data": DATA,
    }
    text = json.dumps(found.parts.to_json(), sort_keys=True, separators=(",", ":"))
    assert found.digest == hashlib.sha256(text.encode()).hexdigest()


def test_the_same_is_the_same_and_reads_well(server: InstalledServer) -> None:
    one = name_of(server, fitted(innodb_page_size="8k", log_bin="b"))
    other = name_of(
        server, fitted(log_bin="b", innodb_page_size="8k"), dict(reversed(DATA.items()))
    )
    assert one == other
    assert one.startswith("mysql-8.0.33-")


def test_build_user_and_data_make_another(server: InstalledServer, tmp_path: Path) -> None:
    options = fitted()
    names = {name_of(server, options)}
    names.add(name_of(replace(server, name="mine"), options))
    names.add(name_of(replace(server, version="8.0.34"), options))
    names.add(snapshots.key(server, options, DATA, user="nobody").name)
    names.add(name_of(server, options, {**DATA, "seed": 2}))
    rebuilt = tmp_path / "mysqld"
    rebuilt.write_bytes(b"another program")
    names.add(name_of(replace(server, program=rebuilt), options))
    assert len(names) == 6


def test_a_program_that_was_rebuilt_in_place_is_another(
    server: InstalledServer, tmp_path: Path
) -> None:
    build = replace(server, program=tmp_path / "mysqld")
    build.program.write_bytes(b"one")
    before = name_of(build, fitted())
    build.program.write_bytes(b"other")
    assert name_of(build, fitted()) != before


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("innodb_page_size", "4k"), ("innodb_log_file_size", "96M"),
        ("innodb_redo_log_capacity", "96M"), ("innodb_file_per_table", "0"),
        ("innodb_undo_tablespaces", "2"), ("innodb_checksum_algorithm", "none"),
        ("innodb_doublewrite", "0"), ("character_set_server", "utf8mb4"), ("skip_log_bin", None),
        ("lower_case_table_names", "1"), ("innodb_default_row_format", "compact"),
        ("an_option_of_tomorrow", "1"), ("loose_an_option_of_tomorrow", "1"),
    ],
)  # fmt: skip
def test_an_option_counts(server: InstalledServer, option: str, value: str | None) -> None:
    assert name_of(server, fitted(**{option: value})) != name_of(server, fitted())


@pytest.mark.parametrize(
    "option",
    [
        "innodb_buffer_pool_size", "innodb_flush_method", "innodb_io_capacity",
        "performance_schema", "performance_schema_max_mutex_instances", "loose_sync_binlog",
        "innodb_write_io_threads", "skip_innodb_adaptive_hash_index", "innodb-flush-neighbors",
    ],
)  # fmt: skip
def test_an_option_without_a_trace_does_not(server: InstalledServer, option: str) -> None:
    for family in databases.names():
        of_family = replace(server, family=family)
        assert name_of(of_family, fitted(**{option: "1"})) == name_of(of_family, fitted())


def test_no_runtime_only_option_shapes_a_data_directory() -> None:
    for name in databases.names():
        options = databases.get(name).options
        assert options.init_options.isdisjoint(options.runtime_only)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([None, "", "0", "1"])).flatmap(
        lambda options: st.tuples(st.just(options), st.permutations(list(options)))
    )
)
def test_order_does_not_count(
    server: InstalledServer, case: tuple[dict[str, str | None], list[str]]
) -> None:
    options, order = case
    shuffled = {name: options[name] for name in order}
    assert name_of(server, fitted(**options)) == name_of(server, fitted(**shuffled))


@pytest.mark.parametrize(
    ("name", "value", "away"),
    [
        ("innodb_undo_directory", "/elsewhere", True),
        ("log_bin", "../logs/binlog", True),
        ("innodb_data_file_path", "ibdata1:12M;/raw/ibdata2:10M", True),
        ("innodb_data_home_dir", "a/../../b", True),
        ("log_bin", "binlog", False),
        ("innodb_data_file_path", "ibdata1:12M:autoextend", False),
        ("performance_schema_instrument", "wait/io/%=on", False),
        ("ssl_ca", "/etc/ca.pem", False),
        ("skip_log_bin", "", False),
    ],
)
def test_what_leads_out_of_the_data_directory(name: str, value: str, away: bool) -> None:
    assert databases.get("mysql").options.leads_away(name, value) is away
