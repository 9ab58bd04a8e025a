"""Test which tests are repeated, and what repeating them says."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests import repeat, run, selection

HELPER = """
import time

def wait():
    time.sleep(1)

def add():
    return 1
"""
TESTS = """
import os
from tests.helper import add, wait

def later():
    wait()

def test_clock():
    later()

def test_signal():
    os.kill(os.getpid(), 0)

def test_fixture(waiting):
    assert waiting

def test_nothing(time):
    assert add() == 1
"""
CONFTEST = """
import pytest
import subprocess

@pytest.fixture
def waiting():
    return subprocess.run(["true"])
"""
MODULE = "tests/unit/test_it.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a tree of tests of which three are of processes, signals and clocks."""
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/helper.py").write_text(HELPER)
    (tmp_path / "tests/unit/conftest.py").write_text(CONFTEST)
    (tmp_path / MODULE).write_text(TESTS)
    return tmp_path


def test_tests_of_processes_signals_and_clocks_are_found(root: Path) -> None:
    assert selection.all_tests(root) == {
        f"{MODULE}::test_clock": True,
        f"{MODULE}::test_signal": True,
        f"{MODULE}::test_fixture": True,
        f"{MODULE}::test_nothing": False,
    }


def test_known_tests_of_this_repository_are_among_them() -> None:
    module = "tests/integration/trial/test_run_stopped.py"
    assert selection.is_sensitive(module, "test_an_interrupted_run_is_continued")
    module = "tests/unit/runner/test_repeat.py"
    assert not selection.is_sensitive(module, "test_the_slowest_are_repeated_too")


def test_the_slowest_are_repeated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "SLOWEST", 1)
    durations = {"tests.a::test_x[1]": 2.0, "tests.a::test_y": 3.0, "tests.gone::test_z": 9.0}
    tests = {f"tests/a.py::test_{name}": name == "w" for name in "wxyz"}
    assert repeat.selected(durations, tests) == ["tests/a.py::test_w", "tests/a.py::test_y"]


def test_repetitions_are_counted_and_continued(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    durations = root / "durations.json"
    run.keep_durations({"tests.unit.test_it::test_nothing": 1.0}, durations)
    run.keep_durations({"tests.unit.test_other::test_x": 1.0}, durations)
    assert len(json.loads(durations.read_text())) == 2
    (root / "tests/unit/test_other.py").write_text("def test_x():\n    pass\n")
    ran: list[Sequence[str]] = []

    def run_tests(tests: Sequence[str], _workers: str) -> Mapping[str, str]:
        ran.append(tests)
        of_it = any("test_it" in test for test in tests)
        return {"tests.unit.test_it::test_clock[1]": "slow"} if of_it and len(ran) < 4 else {}

    monkeypatch.setattr(repeat, "BATCH", 1)
    monkeypatch.setattr(repeat, "STATE", root / "repeated.json")
    monkeypatch.setattr(repeat, "run_tests", run_tests)
    monkeypatch.setattr(repeat, "all_tests", lambda: selection.all_tests(root))
    monkeypatch.setattr(repeat, "by_module", partial(repeat.by_module, root=root))
    assert repeat.main(["--durations", str(durations), "--times", "2"]) == 1
    assert [len(tests) for tests in ran] == [4, 1, 4, 1]
    (root / "tests/unit/test_other.py").write_text("def test_x():\n    assert True\n")
    assert repeat.main(["--durations", str(durations), "--times", "3"]) == 1
    assert [len(tests) for tests in ran[4:]] == [1, 1, 4, 1]  # the changed one begins anew
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "3 of 3 repetitions, 6 of 6 runs of modules: 1 failures",
        "    2 × tests.unit.test_it::test_clock[1]: slow",
    ]
    assert repeat.main(["--durations", str(root / "none")]) == 2
