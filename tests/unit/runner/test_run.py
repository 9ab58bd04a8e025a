"""Test the runner of all tests: which tests it repeats, and its summary."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import run
from tests.run import Outcome

REPOSITORY = Path(__file__).parents[3]
# test_noise imitates a test that the host disturbed: it passes when repeated.
TESTS = """
import pathlib
import pytest

def test_noise():
    before = pathlib.Path("before")
    disturbed = not before.exists()
    before.touch()
    assert not disturbed

@pytest.mark.parametrize("number", range({number}))
def test_defect(number):
    assert not {defective}

@pytest.mark.quiet
def test_quiet_noise():
    before = pathlib.Path("before-quiet")
    disturbed = not before.exists()
    before.touch()
    assert not disturbed

@pytest.mark.quiet
def test_quiet_defect():
    assert not {defective}

@pytest.mark.skip(reason="no such device")
def test_device():
    pass
"""


@pytest.mark.parametrize("defective", [False, True])
def test_a_failed_test_is_tried_once_more_and_listed(tmp_path: Path, defective: bool) -> None:
    ran = run_tests(tmp_path, defective=defective)
    assert ran.returncode == defective, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    at = lines.index("1 skipped:")
    assert lines[at + 1] == "    1 × no such device (test_it)"
    wanted = {"test_noise": "passed then", "test_quiet_noise": "passed then"}
    if defective:
        wanted |= {"test_defect[0]": "failed again", "test_quiet_defect": "failed again"}
    twice = [line for line in lines if line.startswith("tried twice")]
    assert len(twice) == len(wanted)
    for name, ending in wanted.items():
        assert any(line.startswith(f"tried twice, {ending}: test_it::{name}:") for line in twice)


def test_many_failed_tests_are_not_tried_again(tmp_path: Path) -> None:
    ran = run_tests(tmp_path, defective=True, number=3, options=("-k", "not quiet"))
    assert ran.returncode == 1
    assert "tried twice" not in ran.stdout
    assert "4 failed" in ran.stdout


def run_tests(
    place: Path, *, defective: bool, number: int = 1, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the tests above with the runner of all tests, in a directory of their own."""
    (place / "pytest.ini").write_text("[pytest]\nmarkers = quiet\n")
    (place / "test_it.py").write_text(TESTS.format(defective=defective, number=number))
    code = "import sys; from tests import run; sys.exit(run.main(['-n1', *sys.argv[1:]]))"
    return subprocess.run(
        [sys.executable, "-c", code, *options],
        cwd=place,
        env={
            "PYTHONPATH": str(REPOSITORY),
            "PATH": "/usr/bin:/bin",
            # Others that are installed need not be loaded.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p xdist.plugin",
        },
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


def test_run_without_a_report_has_an_empty_outcome(tmp_path: Path) -> None:
    assert run.read(tmp_path / "none.xml", 4) == Outcome(4, {}, {})
