"""Test that no odd terminal or environment ends a command in an error of Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import RunBuilder, keep, noisy


@pytest.fixture(scope="module")
def store(own_places: Path) -> Path:
    """Return a store with a run whose names are not ASCII."""
    stored = RunBuilder({"mysql-5.6.24": noisy(3.0, 4), "mysql-µ": noisy(4.0, 4, seed=2)}).build()
    keep(stored, own_places / "results.sqlite")
    return own_places / "results.sqlite"


@pytest.mark.parametrize(
    "setting",
    [
        "COLUMNS=99999999999",
        "COLUMNS=" + "9" * 5000,
        "COLUMNS=0",
        "COLUMNS=x",
        "PYTHONIOENCODING=ascii:strict",
        "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
    ],
    ids=lambda setting: setting[:30],
)
def test_a_report_is_printed_on_every_terminal(store: Path, setting: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "report", "latest", "--store", str(store)],
        env={**os.environ, **dict(each.split("=", 1) for each in setting.split())},
        capture_output=True,
        check=False,
    )
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert "Traceback" not in text
    assert (done.returncode, "mysql-" in text) == (0, True)
