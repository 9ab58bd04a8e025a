"""Test the commands that a family builds, without running them."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.analysis.explain.causes.known import known
from millrace.databases.base import WITHHELD, Lifecycle, Site, StoredSettings, version_key
from millrace.errors import TrialFailed, UserError
from millrace.model.servers import Option
from tests.support.installed import installed

SCRIPTS = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


def site(tmp_path: Path, name: str, scripts: tuple[str, ...] = SCRIPTS) -> Site:
    share = tmp_path / "share"
    share.mkdir(exist_ok=True)
    for script in scripts:
        (share / script).write_text(f"-- {script}\n", encoding="utf-8")
    server = installed(tmp_path, name, share_dir=share)
    return Site(
        server=server,
        directory=tmp_path / "i",
        data_dir=tmp_path / "i/data",
        tmp_dir=tmp_path / "i/tmp",
        load_dir=tmp_path / "i/load",
        run_dir=tmp_path / "i/run",
        socket=tmp_path / "i/s",
        port=4321,
        user_argument=None,
        password="secret",
    )


def lifecycle(where: Site) -> Lifecycle:
    return databases.get(where.server.family).lifecycle


def test_every_folder_is_a_family_of_that_name() -> None:
    assert databases.names() == ("mariadb", "mysql")
    assert [databases.get(name).name for name in databases.names()] == list(databases.names())


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("8.0.33 MySQL Community Server - GPL", "mysql"),
        ("5.5.34-log Source distribution", "mysql"),
        ("8.0.35-27 Percona Server (GPL), Release 27", "mysql"),
        ("10.11.19-MariaDB-0+deb12u1 Debian 12", "mariadb"),
        ("5.5.5-10.1.23-MariaDB Source distribution", "mariadb"),
        ("11.8.9 mariadb.org binary distribution", "mariadb"),
    ],
)
def test_family_is_recognised_by_the_version_comment(said: str, family: str) -> None:
    assert [name for name in databases.names() if databases.get(name).matches(said)] == [family]


@pytest.mark.parametrize(
    ("engine", "volatile"), [("MEMORY", True), ("heap", True), ("InnoDB", False), ("", False)]
)
def test_engines_whose_tables_a_restart_empties(engine: str, volatile: bool) -> None:
    assert databases.is_volatile(engine) is volatile


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("d/t.ibd", "t"),
        ("d/t#P#p0.ibd", "t"),
        ("d/t#p#p1.ibd", "t"),
        ("d/t.MYD", "t"),
        ("d/#sql-1_2.ibd", None),
        ("d/db.opt", None),
        ("d/t.frm", None),  # its rows are elsewhere
        ("d/t.par", None),
        ("e/t.ibd", None),
        ("#rocksdb/000012.sst", ""),  # of any table
        ("#rocksdb/LOG", None),
    ],
)
def test_the_table_of_a_file(file: str, table: str | None) -> None:
    rules = databases.get("mariadb").snapshots
    assert rules.table_of(Path("/data") / file, "d") == table


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown family 'mariabd'") as caught:
        databases.get("mariabd")
    assert caught.value.hint == "did you mean 'mariadb'?"


@pytest.mark.parametrize(
    "name", ["mysql-5.5.9", "mysql-5.6.24", "mariadb-10.1.8", "mariadb-10.2.11", "mariadb-10.11.19"]
)
def test_bootstrap_feeds_the_scripts_and_ends_with_the_accounts(tmp_path: Path, name: str) -> None:
    where = site(tmp_path, name)
    todo = lifecycle(where).initialisation(where, ())
    assert "--bootstrap" in todo.arguments
    assert todo.init_file is None
    text = todo.stdin.decode()
    assert text.startswith("use mysql;\n")
    places = [text.index(script) for script in SCRIPTS]
    assert places == sorted(places)
    assert text.rindex("secret") > places[-1]


@pytest.mark.parametrize("name", ["mysql-5.7.19", "mysql-8.0.12", "mysql-9.7.4"])
def test_initialize_needs_an_init_file(tmp_path: Path, name: str) -> None:
    todo = databases.get("mysql").lifecycle.initialisation(site(tmp_path, name, ()), ())
    assert {"--initialize-insecure", "--init-file={init_file}"} <= set(todo.arguments)
    assert todo.init_file is not None
    assert b"IDENTIFIED BY 'secret'" in todo.init_file


def test_the_password_is_in_no_argument(tmp_path: Path) -> None:
    for name in ("mysql-5.6.24", "mysql-8.0.12", "mariadb-10.11.19"):
        where = site(tmp_path, name)
        todo = lifecycle(where).initialisation(where, ())
        arguments = [*todo.arguments, *lifecycle(where).start_arguments(where)]
        assert not [argument for argument in arguments if "secret" in argument]
        assert "secret" not in repr(where)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    where = site(tmp_path, "mysql-5.6.24", SCRIPTS[:1])
    with pytest.raises(TrialFailed, match=r"has no mysql_system_tables_data\.sql"):
        lifecycle(where).initialisation(where, ())


def test_later_mariadb_names_its_scripts_after_itself(tmp_path: Path) -> None:
    own = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")
    where = site(tmp_path, "mariadb-11.4.5", own)
    todo = lifecycle(where).initialisation(where, ())
    assert all(script in todo.stdin.decode() for script in own)


def test_options_that_shape_the_data_directory_are_passed_on(tmp_path: Path) -> None:
    where = site(tmp_path, "mysql-8.0.12")
    options = (Option("innodb_page_size", "4096", False, "x"), Option("flag", None, False, "x"))
    arguments = databases.get("mysql").lifecycle.initialisation(where, options).arguments
    assert arguments[-2:] == ("--innodb_page_size=4096", "--flag")


def test_every_start_is_on_loopback_and_reads_no_file_of_the_host(tmp_path: Path) -> None:
    for name in ("mysql-5.5.9", "mysql-9.7.4", "mariadb-10.1.8", "mariadb-11.8.9"):
        where = site(tmp_path, name)
        arguments = lifecycle(where).start_arguments(where)
        assert arguments[0] == "--no-defaults"
        assert "--bind-address=127.0.0.1" in arguments
        assert f"--secure-file-priv={where.load_dir}" in arguments
        assert "--skip-networking" not in arguments
        by_socket = replace(where, by_tcp=False)
        assert "--skip-networking" in lifecycle(where).start_arguments(by_socket)


@pytest.mark.parametrize(
    ("name", "argument", "expected"),
    [
        ("mysql-5.6.24", "--loose-mysqlx=OFF", False),
        ("mysql-8.0.12", "--loose-mysqlx=OFF", True),
        ("mariadb-10.11.19", "--skip-ssl", False),
        ("mariadb-11.4.5", "--skip-ssl", True),
    ],
)
def test_arguments_that_depend_on_the_version(
    tmp_path: Path, name: str, argument: str, expected: bool
) -> None:
    where = site(tmp_path, name)
    assert (argument in lifecycle(where).start_arguments(where)) is expected


@pytest.mark.parametrize(
    ("version", "key"),
    [("5.6.24", (5, 6, 24)), ("8.0.0-dmr", (8, 0, 0)), ("10.2", (10, 2)), ("", ()), ("x", ())],
)
def test_version_key(version: str, key: tuple[int, ...]) -> None:
    assert version_key(version) == key


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.text(max_size=8))
def test_version_key_reads_what_was_written(numbers: list[int], suffix: str) -> None:
    version = ".".join(map(str, numbers))
    assert version_key(version) == tuple(numbers)
    assert version_key(f"{version}-{suffix}") == tuple(numbers)


SECRETS = {
    "report_password": "hunter2",
    "init_connect": "SET @key = 'hunter2'",
    "init_replica": "CALL login('hunter2')",
    "authentication_ldap_simple_bind_root_pwd": "hunter2",
    "keyring_hashicorp_secret_id": "0123-4567",
    "keyring_aws_cmk_id": "arn:aws:kms:eu:1234:key/abcd",
    "server_audit_syslog_info": "hunter2",
    "wsrep_provider_options": "socket.ssl_password=hunter2",
    "wsrep_sst_auth": "sst:hunter2",
    "a_plugin_that_nobody_knows_login": "hunter2",
    "ssl_key": "/home/alice/secret.pem",
    "datadir": "/home/alice/shop",
    # A password may look like a number.
    "master_password": "20190401",
    "some_plugin_pwd": "1234",
    "vault_token": "998877",
}


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_a_text_is_withheld_unless_its_variable_is_known(family: str) -> None:
    settings = databases.get(family).stored_settings
    assert settings.of(SECRETS) == dict.fromkeys(SECRETS, WITHHELD)


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_switches_numbers_and_known_words_are_kept(family: str) -> None:
    harmless = {
        "innodb_buffer_pool_size": "134217728",
        "long_query_time": "10.000000",
        "innodb_max_purge_lag": "-1",
        "have_ssl": "DISABLED",
        "log_bin": "ON",
        "a_plugin_that_nobody_knows_size": "4096",
        "init_connect": "",
        "report_password": "",
        "optimizer_switch": "mrr=on,hash_join=off",
        "innodb_flush_method": "O_DIRECT",
        "sql_mode": "STRICT_TRANS_TABLES",
        "version": "8.0.33",
        "character_set_server": "utf8mb4",
        "foreign_key_checks": "ON",
        "key_buffer_size": "8388608",
        "innodb_ft_min_token_size": "3",
    }
    assert databases.get(family).stored_settings.of(harmless) == harmless


def test_a_setting_of_the_users_own_experiment_is_kept() -> None:
    settings = StoredSettings()
    effective = {"init_connect": "SET autocommit = 0", "report_user": "alice"}
    assert settings.of(effective, own={"init_connect"}) == {
        "init_connect": "SET autocommit = 0",
        "report_user": WITHHELD,
    }


def test_a_digest_that_looks_like_a_long_number_is_withheld() -> None:
    assert StoredSettings().of({"x": "1" * 40, "y": "1" * 20}) == {"x": WITHHELD, "y": "1" * 20}


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_the_words_that_explanations_rank_are_kept(family: str) -> None:
    settings = databases.get(family).stored_settings
    ranked = [
        (name, word)
        for topic in known().topic
        for setting in topic.settings
        if isinstance(setting.dearer, tuple)
        for name in set(setting.names) - {"transport"}  # a factor
        for word in setting.dearer
    ]
    assert ("binlog_row_image", "minimal") in ranked
    assert [each for each in ranked if settings.of({each[0]: each[1]}) != {each[0]: each[1]}] == []
