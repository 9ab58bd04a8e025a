from typing import Any

import pytest

from millrace.errors import ValidationError
from millrace.model.servers import Configuration
from millrace.servers import configurations
from tests.unit.servers.configurations.test_resolve import resolve, values

GIB = 1 << 30
MY_CNF = """\
[client]
port = 3306
[mysqld]
user            = mysql
port            = 3306
datadir         = /var/lib/mysql
socket          = /run/mysqld/mysqld.sock
pid-file        = /run/mysqld/mysqld.pid
log_error       = /var/log/mysql/error.log
skip-name-resolve
log_bin         = /var/lib/mysql/mysql-bin
slow_query_log_file = /var/lib/mysql/slow.log
innodb_buffer_pool_size = 90G
max_connections = 4000   # peak
ssl-ca = /etc/mysql/ca.pem
wsrep_on = ON
super_read_only = 1
[mysqld-8.0]
max_connections = 80
[mysqld-5.7]
max_connections = 57
[mariadb]
max_connections = 5000
[mariadb-10.11]
thread_handling = pool-of-threads
[mysqld_safe]
nice = 5
"""


def of_file(server: str, text: str = MY_CNF, *, memory: int = 24 * GIB) -> Configuration:
    definitions: dict[str, Any] = {"mine": configurations.definition_of_option_file(text, "my.cnf")}
    assert configurations.check({"mine": without_left_out(definitions["mine"])}) == []
    return resolve("mine", server=server, definitions=definitions, host_memory_bytes=memory)


def without_left_out(definition: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in definition.items() if key != "left_out"}


@pytest.mark.parametrize(
    ("server", "connections", "threads"),
    [
        ("mysql-5.7.22", "57", None),
        ("mysql-8.0.33", "80", None),
        ("mysql-9.7.4", "4000", None),
        ("mariadb-10.11.19", "5000", "pool-of-threads"),
        ("mariadb-11.8.9", "5000", None),
    ],
)
def test_groups_apply_to_their_families_and_series(
    server: str, connections: str, threads: str | None
) -> None:
    found = values(of_file(server))
    assert found["max_connections"] == connections
    assert found.get("thread_handling") == threads
    assert "nice" not in found


def test_later_line_replaces_an_earlier_one_of_a_narrower_group() -> None:
    text = "[mysqld-8.0]\nmax_connections = 1\n[mysqld]\nmax_connections = 2\n"
    assert values(of_file("mysql-8.0.33", text))["max_connections"] == "2"


def test_files_of_the_server_keep_their_name_alone() -> None:
    found = values(of_file("mysql-8.0.33"))
    assert found["log_bin"] == "mysql-bin"
    assert found["slow_query_log_file"] == "slow.log"
    assert values(of_file("mysql-8.0.33", "[mysqld]\nlog_bin = /logs/\n"))["log_bin"] is None
    windows = "[mysqld]\ngeneral_log_file = D:\\\\logs\\\\all.log\n"
    assert values(of_file("mysql-8.0.33", windows))["general_log_file"] == "all.log"


def test_log_with_a_directory_keeps_its_name_in_a_written_configuration() -> None:
    definitions = {"mine": {"options": {"log_bin": "/var/lib/mysql/mysql-bin"}}}
    found = resolve("mine", server="mysql-9.7.4", definitions=definitions)
    assert values(found) == {"log_bin": "mysql-bin"}


def test_binary_log_gets_the_server_id_that_it_needs() -> None:
    assert values(of_file("mysql-5.7.22"))["server_id"] == "1"
    assert "server_id" not in values(of_file("mysql-5.7.22", "[mysqld]\nback_log = 9\n"))
    text = "[mysqld]\nlog-bin\nserver-id = 7\n"
    assert values(of_file("mysql-5.7.22", text))["server_id"] == "7"


def test_options_that_cannot_hold_here_are_left_out_with_the_reason() -> None:
    left = {each.option.name: each.reason for each in of_file("mysql-8.0.33").left_out}
    for name in ("user", "port", "datadir", "socket", "pid_file", "log_error"):
        assert left[name] == "millrace sets this for each instance"
    assert left["ssl_ca"] == "a path of the host that the file was written for"
    assert left["wsrep_on"] == "it needs a cluster, and millrace runs one server"
    assert "no table could be loaded" in left["super_read_only"]
    assert left["innodb_buffer_pool_size"].startswith("90G is more than")
    assert "innodb_buffer_pool_size" in values(of_file("mysql-8.0.33", memory=100 * GIB))


@pytest.mark.parametrize(
    "line",
    [
        "innodb_data_home_dir = ../../../home/me",
        "innodb_data_file_path = ibdata1:12M;/home/me/.bashrc:12M",
        "plugin_load = x=/tmp/x.so",
        "innodb_tmpdir = ~/tmp",
    ],
)
def test_paths_that_lead_away_are_left_out(line: str) -> None:
    definition = configurations.definition_of_option_file(f"[mysqld]\n{line}\n", "my.cnf")
    (left,) = definition["left_out"].values()
    assert left["why"] == "a path of the host that the file was written for"
    assert "optional" not in definition


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("wsrep_sst_auth = root:hunter2", "its value may be a secret"),
        ("report_password = hunter2", "its value may be a secret"),
        ("max_connections = {DBInstanceClassMemory/12582880}", "its value is a formula"),
        ("max_connections = GREATEST(1, 2)", "its value is a formula"),
        ("wsrep_cluster_address = gcomm://hunter2", "it needs a cluster"),
    ],
)
def test_secrets_and_formulas_are_left_out_without_their_values(line: str, why: str) -> None:
    definition = configurations.definition_of_option_file(f"[mysqld]\n{line}\n", "my.cnf")
    (left,) = definition["left_out"].values()
    assert left["why"].startswith(why)
    assert left["value"] == ""


def test_notes_name_what_was_left_out() -> None:
    definition = configurations.definition_of_option_file(MY_CNF + "!include /etc/x\n", "my.cnf")
    notes = list(configurations.notes_on("mine", definition))
    assert (
        "configuration mine: left out user, port, datadir, socket, pid_file, log_error: "
        "millrace sets this for each instance"
    ) in notes
    assert any("!include /etc/x: line 28 includes other files" in note for note in notes)


@pytest.mark.parametrize(
    ("family", "value", "line"),
    [("mysql", "ANSI", 5), ("mysql", "STRICT_ALL_TABLES", 7), ("mariadb", "TRADITIONAL", 9),
     ("mysql", "TRADITIONAL", None), ("mysql", None, None)],
)  # fmt: skip
def test_the_line_of_a_value_is_known(family: str, value: str | None, line: int | None) -> None:
    text = (
        "[client]\nsql_mode = ANSI\n[mysqld]\nsql-mode = ANSI\nsql_mode = ANSI\n"
        "[mysqld-5.7]\nsql_mode = STRICT_ALL_TABLES\n[mariadb]\nsql_mode=TRADITIONAL\n"
    )
    assert configurations.line_of("sql_mode", value, text, family) == line


def test_every_option_is_optional() -> None:
    assert all(option.optional for option in of_file("mysql-8.0.33").options)


def test_mistakes_are_reported_with_their_lines() -> None:
    with pytest.raises(ValidationError) as refused:
        configurations.definition_of_option_file("[mysqld]\n= 3\n", "my.cnf")
    assert "my.cnf: 1 mistake\n  line 2, " in refused.value.message


@pytest.mark.parametrize("line", ["root:secret:0", "secret = 3", "[secret", "c2VjcmV0secret=="])
def test_lines_of_a_file_that_is_no_option_file_are_not_shown(line: str) -> None:
    with pytest.raises(ValidationError) as refused:
        configurations.definition_of_option_file(f"{line}\n", "/home/user/notes")
    assert "line 1, " in refused.value.message
    assert "secret" not in refused.value.message
