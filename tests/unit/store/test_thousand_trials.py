"""A store of a thousand trials: every command that reads all of it ends, with bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.analysis.builders import keep
from tests.unit.analysis.query_runs import QueryRun

pytestmark = pytest.mark.slow

TRIALS = 1_000
# Far more than each command takes (at most 250 MB here), far less than a trial's data each.
MOST_RESIDENT_BYTES = 1 << 30
LIMIT_S = 300


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("thousand")
    stored = QueryRun(
        servers=("mysql-5.6.24", "mysql-9.7.4"),
        tests=tuple(f"test-{number}" for number in range(25)),
        clients=(1, 8),
        blocks=10,
    ).build()
    assert len(stored.trials) == TRIALS
    keep(stored, directory / "results.sqlite")
    return directory


def carry_out(place: Path, *arguments: str, store: str = "results.sqlite") -> str:
    """What a command prints; its memory is bounded."""
    read, write = os.pipe()
    child = (
        "import os, resource, sys\n"
        "from millrace.cli.main import cli\n"
        "try:\n"
        "    cli.main(sys.argv[2:], prog_name='millrace', standalone_mode=False)\n"
        "finally:\n"
        "    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "    os.write(int(sys.argv[1]), str(resident).encode())\n"
    )
    places = {"MILLRACE_STORE": str(place / store), "MILLRACE_STATE": str(place / "state")}
    done = subprocess.run(
        [sys.executable, "-c", child, str(write), *arguments],
        cwd=place,
        env={**os.environ, **places},
        pass_fds=[write],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    os.close(write)
    with os.fdopen(read) as pipe:
        resident_bytes = int(pipe.read())
    assert done.returncode == 0, done.stderr
    assert resident_bytes < MOST_RESIDENT_BYTES
    return done.stdout


def test_all_of_it_is_listed_and_shown(place: Path) -> None:
    (row,) = json.loads(carry_out(place, "results", "list", "--json"))
    assert row["finished"] == TRIALS
    shown = json.loads(carry_out(place, "results", "show", row["id"], "--json"))
    assert len(shown["trials"]) == TRIALS


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "json", "html"])
def test_all_of_it_is_reported(place: Path, form: str) -> None:
    options = ("--format", form, *(("--output", "report.html") if form == "html" else ()))
    text = carry_out(place, "report", *options)
    if form == "json":
        document = json.loads(text)
        assert sum(each["finished"] for each in document["treatments"]) == TRIALS
    elif form == "csv":
        assert len(text.splitlines()) == 1 + 50 * len(("throughput", "p99", "server_cpu"))
    elif form == "html":
        assert (place / "report.html").read_text().rstrip().endswith("</html>")


def test_all_of_it_comes_back_from_an_export(place: Path) -> None:
    carry_out(place, "results", "export", "latest", "--output", "runs.zip")
    carry_out(place, "results", "import", "runs.zip", store="other.sqlite")
    (row,) = json.loads(carry_out(place, "results", "list", "--json", store="other.sqlite"))
    assert row["finished"] == TRIALS


def test_all_of_it_becomes_a_history(place: Path) -> None:
    carry_out(place, "history", "record", "latest", "--label", "v1")
    carry_out(place, "history", "detect")
    document = json.loads(carry_out(place, "history", "show", "--json"))
    assert len(document["series"]) == 50 * len(("throughput", "server_cpu"))
