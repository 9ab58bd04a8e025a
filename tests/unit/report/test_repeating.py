from __future__ import annotations

import json

import pytest

from millrace.analysis.judge import judge
from millrace.report.render import render
from millrace.report.repeating import repeating
from tests.unit.analysis.builders import study


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("millrace run a.toml --scale demo", "millrace run --new a.toml --scale demo"),
        ("millrace run --new a.toml", "millrace run --new a.toml"),
        ("millrace calibrate a.toml", "millrace calibrate --new a.toml"),
        ("millrace bisect --good a --bad b", "millrace bisect --new --good a --bad b"),
        ("millrace explain latest --test-suspects", "millrace explain latest --test-suspects"),
        ("millrace runner", "millrace runner"),
        ("", ""),
    ],
)
def test_the_command_begins_a_new_run(command: str, again: str) -> None:
    assert repeating(command) == again


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_reports_repeat_a_run_and_do_not_continue_it(form: str) -> None:
    text = render(judge(study()), form)
    again = "millrace run --new experiments/load-data.toml --scale demo"
    assert (json.loads(text)["run"]["command"] if form == "json" else text).find(again) >= 0
