"""Test `millrace doctor` on terminals of different widths, and with invalid names."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from millrace.app import doctor
from millrace.cli import console
from millrace.cli.doctor import command
from millrace.model.host_facts import Finding

LONG = Finding(
    check="governor",
    status="warn",
    observed=" ".join(["powersave"] * 30),
    why=" ".join(["slower"] * 30),
    hint=" ".join(["sudo"] * 60),
)


@pytest.mark.parametrize(("columns", "narrow"), [(60, True), (89, True), (90, False)])
def test_a_narrow_terminal_keeps_its_columns_for_the_text(
    columns: int, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: [LONG, LONG.replace(check="other load")])
    monkeypatch.setattr(console.out, "width", columns)
    done = CliRunner().invoke(command, catch_exceptions=False)
    lines = [line for line in done.output.splitlines() if line.startswith(" ")]
    (indent,) = {len(line) - len(line.lstrip()) for line in lines}
    assert (indent == 4) == narrow


def test_the_columns_are_those_of_the_environment(child_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from millrace.cli.console import out; print(out.width)"],
        capture_output=True,
        text=True,
        check=True,
        env={**child_environment, "COLUMNS": "60"},
    )
    assert done.stdout == "60\n"


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
