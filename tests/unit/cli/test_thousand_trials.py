"""Test a store of a thousand trials: it shows all results, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
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

PROGRAM = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
from millrace.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("thousand") / "results.sqlite"
    keep(run_of("thousand", blocks=BLOCKS), path)
    return path


def millrace(*arguments: str | Path, store: Path) -> str:
    """Run a command in bounded memory; return its stdout."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments), "--store", str(store)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_they_are_listed(store: Path) -> None:
    (run,) = json.loads(millrace("results", "list", "--json", store=store))
    assert (run["id"], run["finished"], run["failed"]) == ("thousand", 2 * BLOCKS, 0)
    shown = json.loads(millrace("results", "show", "thousand", "--json", store=store))
    assert len(shown["attempts"]) == 2 * BLOCKS


def test_they_are_reported(store: Path, tmp_path: Path) -> None:
    document = json.loads(millrace("report", "thousand", "--format", "json", store=store))
    assert [each["finished"] for each in document["treatments"]] == [BLOCKS, BLOCKS]
    assert {each["n_blocks"] for each in document["comparisons"]} == {BLOCKS}
    verdicts = {each["metric"]: each["verdict"] for each in document["comparisons"]}
    assert verdicts["throughput"] == "regression"
    page = tmp_path / "report.html"
    millrace("report", "thousand", "--format", "html", "--output", page, store=store)
    assert page.read_text("utf-8").rstrip().endswith("</html>")


def test_they_are_moved_to_another_store(store: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "thousand.zip", tmp_path / "other.sqlite"
    millrace("results", "export", "thousand", "--output", file, store=store)
    millrace("results", "import", file, store=other)
    with Store.open(store) as one, Store.open(other) as two:
        original, moved = one.load_run("thousand"), two.load_run("thousand")
    assert len(moved.attempts) == 2 * BLOCKS
    assert [replace(each, id=0) for each in moved.attempts] == [
        replace(each, id=0) for each in original.attempts
    ]
