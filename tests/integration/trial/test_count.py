"""Test ``millrace count`` on a real server in valgrind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.errors import HostError
from millrace.host import valgrind
from millrace.paths import work_dir
from millrace.servers.instances import ownership
from tests.integration.trial.command import Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once")]

FILE = """\
name = "counted"
workload = "sysbench"

[factors]
test = ["point-query"]
clients = [1, 8]
server = { levels = ["mysql-5.6.24", "again"], aliases = { again = "mysql-5.6.24" } }
options.table_definition_cache = [400]

[compare]
factor = "server"
base = "mysql-5.6.24"

[parameters]
table_size = 500
cache_mode = "cached"
"""


@pytest.fixture(autouse=True)
def _with_valgrind() -> None:
    try:
        valgrind.find()
    except HostError as error:
        pytest.skip(error.message)


def test_a_server_executes_as_many_instructions_as_itself(tmp_path: Path) -> None:
    place = Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})
    file = tmp_path / "counted.toml"
    file.write_text(FILE, encoding="utf-8")
    counted = place.millrace("count", file, "--starts", "1", "--json")
    assert counted.returncode == 0, counted.stderr
    (group,) = json.loads(counted.stdout)["groups"]
    base, again = group["treatments"]
    assert "clients" not in base["levels"]
    assert 20_000 < base["instructions"] < 80_000
    assert again["instructions"] == pytest.approx(base["instructions"], rel=0.005)
    assert base["transactions"] in (204, 600)
    assert base["program"]["position_independent"] is False
    (comparison,) = group["comparisons"]
    assert "in a single start" in comparison["sentence"]
    assert not ownership.running()
    assert not list(work_dir().iterdir())
