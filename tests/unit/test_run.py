"""Test the runner of all tests: which tests it repeats, and its summary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import run
from tests.run import Outcome

REPOSITORY = Path(__file__).parents[2]
# The first imitates a test that the host disturbed: it passes when repeated.
TESTS = """
import pathlib
import pytest

@pytest.fixture(scope="module")
def measured():
    before = pathlib.Path("before")
    if before.exists():
        return "well"
    before.touch()
    return "badly"

{mark}
def test_noise(measured, {argument}):
    assert measured == "well"

{mark}
def test_defect({argument}):
    assert not {defective}

@pytest.mark.skip(reason="no such device")
def test_device():
    pass
"""


QUIET = "@pytest.mark.quiet"
SHARED = "@pytest.mark.parametrize('number', range(1))"
SHARED_MANY = "@pytest.mark.parametrize('number', range(3))"


@pytest.mark.parametrize(
    ("mark", "defective", "status", "ending"),
    [
        (QUIET, False, 0, "passed then"),
        (QUIET, True, 1, "failed again"),
        (SHARED, False, 0, "passed then"),
        (SHARED, True, 1, "failed again"),
    ],
)
def test_a_failed_test_is_tried_once_more_and_listed(
    tmp_path: Path, mark: str, defective: bool, status: int, ending: str
) -> None:
    ran = run_tests(tmp_path, mark, defective=defective)
    assert ran.returncode == status, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    name = "test_defect" if defective else "test_noise"
    (listed,) = [line for line in lines if line.startswith("tried twice") and name in line]
    assert listed.startswith(f"tried twice, {ending}: test_it::{name}")
    at = lines.index("1 skipped:")
    assert lines[at + 1] == "    1 × no such device (test_it)"
    assert sum(line.startswith("tried twice") for line in lines) == 1 + defective


def test_many_failed_tests_are_not_tried_again(tmp_path: Path) -> None:
    ran = run_tests(tmp_path, SHARED_MANY, defective=True)
    assert ran.returncode == 1
    assert "tried twice" not in ran.stdout
    assert "6 failed" in ran.stdout


def run_tests(place: Path, mark: str, *, defective: bool) -> subprocess.CompletedProcess[str]:
    """Run the tests above with the runner of all tests, in a directory of their own."""
    (place / "pytest.ini").write_text("[pytest]\nmarkers = quiet\n")
    argument = "" if mark == QUIET else "number"
    text = TESTS.format(mark=mark, argument=argument, defective=defective)
    (place / "test_it.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-c", "import sys; from tests import run; sys.exit(run.main(['-n1']))"],
        cwd=place,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_reasons_fit_into_ten_lines() -> None:
    skipped = {
        **{f"tests.a::test_{number}": "no perf" for number in range(7)},
        "tests.b::test_1": "no perf",
        **{f"tests.c::test_{number}": f"reason {number:02}" for number in range(30)},
    }
    lines = run.summary([Outcome(1, skipped, {"tests.d::test": "assert"})], [Outcome(0, {}, {})])
    assert len(lines) == 10
    assert lines[0] == "38 skipped:"
    assert lines[1] == "    8 × no perf (tests.a and 1 more)"
    assert lines[-1] == "   23 × 23 other reasons"


def test_a_run_without_a_report_has_said_nothing(tmp_path: Path) -> None:
    assert run.read(tmp_path / "none.xml", 4) == Outcome(4, {}, {})
