"""Test a store of a thousand trials: it shows all results, in bounded memory."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.support.builders import keep
from tests.support.history_points import run_of

BLOCKS = 500  # of two trials each
MEMORY_BYTES = 1 << 30
"""The largest address space of a command, libraries included."""

END = "\x1e"  # written after each command

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
def place(own_places: Path) -> Path:
    """Return a directory with the store, and with what commands made of it."""
    keep(run_of("thousand", blocks=BLOCKS), own_places / "thousand.sqlite")
    return own_places


@pytest.fixture(scope="module")
def outputs(place: Path) -> dict[str, str]:
    """Run all commands in one process of bounded memory; return the stdout of each."""
    store, file = place / "thousand.sqlite", place / "thousand.zip"
    commands: dict[str, Sequence[str | Path]] = {
        "list": ("results", "list", "--json", "--store", store),
        "show": ("results", "show", "thousand", "--json", "--store", store),
        "json": ("report", "thousand", "--format", "json", "--store", store),
        "html": (
            "report", "thousand", "--format", "html", "--output", place / "report.html",
            "--store", store,
        ),
        "export": ("results", "export", "thousand", "--output", file, "--store", store),
        "import": ("results", "import", file, "--store", place / "other.sqlite"),
    }  # fmt: skip
    given = json.dumps([[*map(str, each)] for each in commands.values()])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    *outputs, rest = done.stdout.split(END)
    assert rest == ""
    return dict(zip(commands, outputs, strict=True))


def test_they_are_listed(outputs: Mapping[str, str]) -> None:
    (run,) = json.loads(outputs["list"])
    assert (run["id"], run["finished"], run["failed"]) == ("thousand", 2 * BLOCKS, 0)
    assert len(json.loads(outputs["show"])["attempts"]) == 2 * BLOCKS


def test_they_are_reported(outputs: Mapping[str, str], place: Path) -> None:
    document = json.loads(outputs["json"])
    assert [each["finished"] for each in document["treatments"]] == [BLOCKS, BLOCKS]
    assert {each["n_blocks"] for each in document["comparisons"]} == {BLOCKS}
    verdicts = {each["metric"]: each["verdict"] for each in document["comparisons"]}
    assert verdicts["throughput"] == "regression"
    assert (place / "report.html").read_text("utf-8").rstrip().endswith("</html>")


@pytest.mark.usefixtures("outputs")
def test_they_are_moved_to_another_store(place: Path) -> None:
    with Store.open(place / "thousand.sqlite") as one, Store.open(place / "other.sqlite") as two:
        original, moved = one.load_run("thousand"), two.load_run("thousand")
    assert len(moved.attempts) == 2 * BLOCKS
    assert [replace(each, id=0) for each in moved.attempts] == [
        replace(each, id=0) for each in original.attempts
    ]
