"""`millrace doctor` on terminals of different widths."""

from __future__ import annotations

import subprocess
import sys

import pytest


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
