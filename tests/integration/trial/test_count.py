"""Test ``millrace count`` on a real server in valgrind."""

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from millrace.errors import HostError
from millrace.experiment import model
from millrace.host import valgrind
from millrace.paths import work_dir
from millrace.servers.instances import ownership
from millrace.servers.instances.processes import ProcessId
from tests.support.command import Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

START_LIMIT_S = 120.0

FILE = """\
name = "counted"
workload = "sysbench"

[factors]
test = ["point-query"]
clients = [1, 8]
server = { levels = ["mysql-5.6.24", "again"], aliases = { again = "mysql-5.6.24" } }
options.table_definition_cache = [400]
options.performance_schema = [false] # a start in callgrind takes half as long

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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "counted.toml"
    written.write_text(FILE, encoding="utf-8")
    return written


def test_a_server_executes_as_many_instructions_as_itself(tmp_path: Path, file: Path) -> None:
    place = Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})
    counted = place.millrace("count", file, "--starts", "1", "--json")
    assert counted.returncode == 0, counted.stderr
    (group,) = json.loads(counted.stdout)["groups"]
    base, again = group["treatments"]
    assert "clients" not in base["levels"]
    assert 20_000 < base["instructions"] < 80_000
    assert again["instructions"] == pytest.approx(base["instructions"], rel=0.005)
    assert base["transactions"] == again["transactions"]
    assert base["program"]["position_independent"] is False
    (comparison,) = group["comparisons"]
    assert "in a single start" in comparison["sentence"]
    again = place.millrace("count", file, "--starts", "1", "--json")
    assert again.stdout == counted.stdout
    assert "all 2 trials have a result" in again.stderr
    assert place.millrace("report", "--format", "json").stdout == counted.stdout
    assert not ownership.running()
    assert not list(work_dir().iterdir())


def test_a_run_counts_after_its_trials_and_explains_them(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "COUNTED_STARTS", 1)
    head = 'design = "interleaved"\nblocks = 1\ncollectors = ["instructions"]\n'
    text = FILE.replace("clients = [1, 8]", "clients = [1]")
    # Without this index the server has none to complete before statements are counted.
    text = text.replace("[compare]", "options.innodb_adaptive_hash_index = [false]\n\n[compare]")
    file.write_text(f"{head}{text}time_s = 0.5\nwarmup_s = 0.1\nsettle_s = 0.3\n")
    place = Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})
    run = place.millrace("run", file)
    assert run.returncode == 0, run.stderr
    assert "count 1" in run.stderr
    stored = place.latest()
    assert [each.purpose for each in stored.trials] == ["measure"] * 2 + ["count"] * 2
    assert place.millrace("run", file).returncode == 0
    assert len(place.latest().attempts) == 4  # nothing is counted again
    explained = place.millrace("explain", "--json")
    assert explained.returncode == 0, explained.stderr
    (explanation,) = json.loads(explained.stdout)["explanations"]
    found = explanation["instructions"]
    assert found["ratio"] == pytest.approx(1.0, rel=0.005)
    assert [len(each["starts"]) for each in found["treatments"]] == [1, 1]
    assert all(20_000 < each["instructions"] < 80_000 for each in found["treatments"])
    assert found["treatments"][0]["program"]["position_independent"] is False
    assert not ownership.running()
    assert not list(work_dir().iterdir())


def test_a_killed_count_leaves_nothing_that_the_next_command_does_not_end(
    tmp_path: Path, file: Path
) -> None:
    place = Place(tmp_path)
    with place.running("count", file) as process:
        counting = server_in_callgrind(process)
    assert counting.exists()
    (said,) = ownership.reap_orphans()
    assert f"ended process {counting.pid} of mysql-5.6.24" in said
    assert not counting.exists()
    assert not ownership.running()
    assert not list(work_dir().iterdir())


def server_in_callgrind(process: subprocess.Popen[str]) -> ProcessId:
    """Wait for the server that a command starts in callgrind."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for each in (each for record in ownership.running() for each in record.live_processes()):
            with suppress(OSError):
                if b"--tool=callgrind" in Path(f"/proc/{each.pid}/cmdline").read_bytes():
                    return each
        time.sleep(0.01)
    raise AssertionError("no server started in callgrind")
