"""Test `millrace doctor` on terminals of different widths, and with invalid names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from millrace.app import doctor
from millrace.cli.doctor import command
from millrace.model.host_facts import Finding


@pytest.mark.parametrize(("columns", "narrow"), [(60, True), (89, True), (90, False)])
def test_a_narrow_terminal_keeps_its_columns_for_the_text(
    columns: int, narrow: bool, child_environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "doctor"],
        capture_output=True,
        text=True,
        check=True,
        env={**child_environment, "COLUMNS": str(columns)},
    )
    indents = {
        len(line) - len(line.lstrip()) for line in done.stdout.splitlines() if line.startswith(" ")
    }
    assert len(indents) <= 1
    assert all((indent == 4) == narrow for indent in indents)


def test_a_process_adds_no_line_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(
        check="other load",
        status="warn",
        observed="x\nok      steal time (pid 7)",
        why="why",
        hint="stop it",
    )
    monkeypatch.setattr(doctor, "examine", lambda *_: [found])
    done = CliRunner().invoke(command, catch_exceptions=False)
    assert r"x\nok      steal time (pid 7)" in done.output
    assert "\nok" not in done.output
