"""Commands that are killed where they write: what was there is whole, and the next one goes on.

A command is killed with SIGKILL at each of its changes to files in turn, and at a few moments of
its transaction; each time in a process of its own on a copy of the same state.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.analysis.builders import keep, study

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["millrace.cli.main", "tests.unit.cli.test_killed_commands"])
CHANGING = frozenset(("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"))
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOMENTS = (1, 2, 3, 5, 9, 17, 33, 65)
LIMIT_S = 60


def killed_at(change: int, statement: int, place: Path, arguments: Sequence[str]) -> None:
    """Carry out a command in ``place`` until it makes this change to files, or executes this
    statement that writes to the store; 0 is never."""
    left = {"change": change, "statement": statement}

    def count(kind: str) -> None:
        left[kind] -= 1
        if left[kind] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def look(event: str, values: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(values[2], int) and values[2] & WRITING
        if event in CHANGING or writes:
            count("change")

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(
            lambda sql: count("statement") if sql.startswith(("INSERT", "COMMIT")) else None
        )
        return connection

    connect: Any = sqlite3.connect
    vars(sqlite3)["connect"] = traced
    from millrace.cli.main import main

    os.chdir(place)
    os.environ.update(
        {"MILLRACE_STATE": str(place / "state"), "MILLRACE_STORE": str(place / "results.sqlite")}
    )
    with (place / "said").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = ["millrace", *arguments]
    sys.dont_write_bytecode = True
    sys.addaudithook(look)
    main()


def carry_out(
    place: Path, arguments: Sequence[str], *, change: int = 0, statement: int = 0
) -> int | None:
    """The exit status of a command, or minus the signal that ended it."""
    process = FORKSERVER.Process(target=killed_at, args=(change, statement, place, arguments))
    process.start()
    process.join(LIMIT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


def said(place: Path, *arguments: str) -> Any:
    """What a command that prints JSON says of the state as it is now."""
    assert carry_out(place, arguments) == 0, (place / "said").read_text()
    return json.loads((place / "said").read_text())


def check_page(place: Path) -> None:
    page = (place / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")


def check_archive(place: Path) -> None:
    if (place / "runs.zip").exists():
        with zipfile.ZipFile(place / "runs.zip") as archive:
            assert archive.testzip() is None


def check_import(place: Path) -> None:
    if carry_out(place, ["results", "list", "--json"]) == 2:
        words = (place / "said").read_text()
        assert "there is no results store" in words or "the file is empty" in words
        return
    runs = json.loads((place / "said").read_text())
    assert len(runs) in (0, 1)
    if runs:
        detail = said(place, "results", "show", runs[0]["id"], "--json")
        assert len(detail["trials"]) == len(study(blocks=3).trials)


def check_history(place: Path) -> None:
    if carry_out(place, ["history", "show", "--json"]) == 2:
        assert "holds no histories yet" in (place / "said").read_text()
        return
    series = json.loads((place / "said").read_text())["series"]
    assert {len(each["points"]) for each in series} <= {1}
    assert len(series) in (0, 9)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each command finds: a store with a run, with an earlier report; and an archive alone."""
    place = tmp_path_factory.mktemp("states")
    filled, empty = place / "filled", place / "empty"
    for each in (filled, empty):
        each.mkdir()
    keep(study(blocks=3), filled / "results.sqlite")
    assert carry_out(filled, [*REPORT]) == 0
    assert carry_out(filled, ["results", "export", "latest", "--output", "runs.zip"]) == 0
    (filled / "runs.zip").rename(empty / "runs.zip")
    return place


REPORT = ["report", "--format", "html", "--output", "report.html"]
EXPORT = ["results", "export", "latest", "--output", "runs.zip"]
IMPORT = ["results", "import", "runs.zip"]
RECORD = ["history", "record", "latest", "--label", "v1"]


@pytest.mark.parametrize(
    ("kind", "state", "arguments", "check"),
    [
        ("change", "filled", REPORT, check_page),
        ("change", "filled", EXPORT, check_archive),
        ("change", "empty", IMPORT, check_import),
        ("statement", "empty", IMPORT, check_import),
        ("change", "filled", RECORD, check_history),
        ("statement", "filled", RECORD, check_history),
    ],
    ids=["report", "export", "import", "statements-of-import", "record", "statements-of-record"],
)
def test_a_killed_command_leaves_all_or_nothing(
    states: Path,
    tmp_path: Path,
    kind: str,
    state: str,
    arguments: list[str],
    check: Callable[[Path], None],
) -> None:
    moments = 0
    for moment in MOMENTS:
        place = tmp_path / f"{moment}"
        shutil.copytree(states / state, place)
        status = carry_out(place, arguments, **{kind: moment})
        if status != -signal.SIGKILL:
            assert status == 0, (place / "said").read_text()
            break
        moments += 1
        if (place / "results.sqlite").exists():
            with contextlib.closing(sqlite3.connect(place / "results.sqlite")) as store:
                assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        check(place)
        again = carry_out(place, arguments)
        assert again == 0 or "already" in (place / "said").read_text()
        check(place)
        assert not list(place.rglob("*.millrace-draft"))
        shutil.rmtree(place)
    assert moments > 0
