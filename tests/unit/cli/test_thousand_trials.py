"""Test a store of a thousand trials: it shows all results, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.unit.analysis.builders import keep
from tests.unit.analysis.history_points import run_of

pytestmark = pytest.mark.slow

BLOCKS = 500  # of two trials each
MEMORY_BYTES = 1 << 30
"""The largest address space of a command, libraries included."""

END = "\x1e"  # printed after each command

PROGRAM = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
from millrace.cli.main import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["millrace", *command]
    try:
        main()
    except SystemExit as ending:
        if ending.code:
            raise
    print({END!r}, end="", flush=True)
"""


@pytest.fixture(scope="module")
def store(own_places: Path) -> Path:
    path = own_places / "thousand.sqlite"
    keep(run_of("thousand", blocks=BLOCKS), path)
    return path


def millrace(*commands: Sequence[str | Path]) -> list[str]:
    """Run commands in a process of bounded memory; return the stdout of each."""
    given = json.dumps([[*map(str, each)] for each in commands])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    *printed, rest = done.stdout.split(END)
    assert (len(printed), rest) == (len(commands), "")
    return printed


def test_they_are_listed(store: Path) -> None:
    listed, detailed = millrace(
        ("results", "list", "--json", "--store", store),
        ("results", "show", "thousand", "--json", "--store", store),
    )
    (run,) = json.loads(listed)
    assert (run["id"], run["finished"], run["failed"]) == ("thousand", 2 * BLOCKS, 0)
    assert len(json.loads(detailed)["attempts"]) == 2 * BLOCKS


def test_they_are_reported(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    as_json, _ = millrace(
        ("report", "thousand", "--format", "json", "--store", store),
        ("report", "thousand", "--format", "html", "--output", page, "--store", store),
    )
    document = json.loads(as_json)
    assert [each["finished"] for each in document["treatments"]] == [BLOCKS, BLOCKS]
    assert {each["n_blocks"] for each in document["comparisons"]} == {BLOCKS}
    verdicts = {each["metric"]: each["verdict"] for each in document["comparisons"]}
    assert verdicts["throughput"] == "regression"
    assert page.read_text("utf-8").rstrip().endswith("</html>")


def test_they_are_moved_to_another_store(store: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "thousand.zip", tmp_path / "other.sqlite"
    millrace(
        ("results", "export", "thousand", "--output", file, "--store", store),
        ("results", "import", file, "--store", other),
    )
    with Store.open(store) as one, Store.open(other) as two:
        original, moved = one.load_run("thousand"), two.load_run("thousand")
    assert len(moved.attempts) == 2 * BLOCKS
    assert [replace(each, id=0) for each in moved.attempts] == [
        replace(each, id=0) for each in original.attempts
    ]
