"""Test ``millrace config`` on real servers: requested, effective and different settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.called import Done, millrace

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once")]


def config(*arguments: str, status: int = 0) -> Done:
    return millrace("config", *arguments, status=status)


def config_json(*arguments: str) -> Any:
    done = config(*arguments, "--json", status=0)
    return json.loads(done.stdout)


@pytest.fixture(autouse=True, scope="module")
def _servers(server_of: Any) -> None:
    for name in ("mysql-5.6.24", "mysql-5.7.22", "mariadb-10.11.19"):
        server_of(name)


def test_list_names_every_configuration() -> None:
    assert {row["name"] for row in config_json("list")} >= {"default", "wmf", "insecure"}


def test_a_server_does_not_differ_from_itself() -> None:
    found = config_json("diff", "mariadb-10.11.19", "mariadb-10.11.19")
    assert (found["only_a"], found["only_b"], found["different"]) == ({}, {}, {})


def test_diff_has_three_groups_with_named_sides() -> None:
    found = config_json("diff", "mysql-5.6.24", "mysql-5.7.22:insecure")
    assert (found["a"]["server"], found["a"]["configuration"]) == ("mysql-5.6.24", "default")
    assert (found["b"]["server"], found["b"]["configuration"]) == ("mysql-5.7.22", "insecure")
    assert "innodb_use_sys_malloc" in found["only_a"]
    assert "innodb_page_cleaners" in found["only_b"]
    assert found["different"]["innodb_doublewrite"] == ["ON", "OFF"]
    always = {"port", "socket", "datadir", "pid_file", "hostname", "server_uuid"}
    assert not always & {*found["only_a"], *found["only_b"], *found["different"]}


def test_diff_for_people_heads_each_column_with_its_server() -> None:
    done = config("diff", "mysql-5.6.24:insecure", "mysql-5.6.24", status=0)
    heading = next(line for line in done.stdout.splitlines() if line.startswith("variable"))
    assert heading.split() == ["variable", "mysql-5.6.24:insecure", "mysql-5.6.24:default"]
    assert "\ndifferent (" in f"\n{done.stdout}"


def test_show_lists_requested_effective_and_omitted_options() -> None:
    found = config_json("show", "mariadb-10.11.19", "wmf", "--data", "100M")
    asked = {option["name"]: option for option in found["asked"]}
    assert asked["innodb_buffer_pool_size"] == {
        "name": "innodb_buffer_pool_size",
        "value": "384M",
        "layer": "s1-sizes",
    }
    assert found["effective"]["innodb_buffer_pool_size"] == str(384 << 20)
    assert {left["name"] for left in found["left_out"]} >= {"innodb_thread_concurrency"}
    assert all(left["reason"] for left in found["left_out"])
    assert found["against_default"]["different"]["sync_binlog"] == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "mysql-5.6.24", "wfm"), "did you mean 'wmf'?"),
        (("diff", "mysql-5.6.42", "mysql-5.6.24"), "mysql-5.6.24"),
        (("show", "mysql-5.6.24", "wmf", "--data", "12X"), "is not a size"),
    ],
)
def test_a_wrong_name_ends_with_exit_status_2(arguments: tuple[str, ...], message: str) -> None:
    done = config(*arguments, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


_OPTION_FILE = """\
[mysqld]
port = 3307
log_bin = /var/lib/mysql/mysql-bin
max_connections = 77
max_conections = 5
"""
_EXPERIMENT = """\
name = "own"
workload = "sysbench"
[factors]
server = ["mysql-5.7.22"]
configuration = ["mine"]
[compare]
base = "mysql-5.7.22"
[parameters]
table_size = 1000
[configurations.mine]
file = "my.cnf"
"""


def test_option_file_is_shown_and_compared_as_a_server_has_it(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text(_OPTION_FILE)
    (tmp_path / "own.toml").write_text(_EXPERIMENT)
    shown = config_json("show", "mysql-5.7.22", str(tmp_path / "my.cnf"))
    assert shown["effective"]["max_connections"] == "77"
    assert shown["effective"]["log_bin"] == "ON"
    assert {each["name"] for each in shown["left_out"]} == {"port", "max_conections"}
    found = config_json("diff", "mysql-5.7.22", f"mysql-5.7.22:{tmp_path / 'own.toml'}:mine")
    assert found["different"]["max_connections"] == ["151", "77"]


def test_plan_names_options_of_a_file_unknown_to_a_server(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_text(_OPTION_FILE)
    (tmp_path / "own.toml").write_text(_EXPERIMENT)
    done = millrace("plan", tmp_path / "own.toml", status=0)
    said = " ".join(done.stderr.split())
    assert "left out port: millrace sets this for each instance" in said
    assert "with mysql-5.7.22: max_conections (not known; nearest: max_connections)" in said
