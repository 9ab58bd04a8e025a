"""Test explanations in a terminal."""

import re
from dataclasses import replace

import pytest

from millrace.analysis.explain.explanation import Explanation
from millrace.cli.explain import command as explain_command
from millrace.report.explanation.caveats import NOT_SURE
from tests.support.explained import explained_text
from tests.support.reports import one_line


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_cuts_nothing(study: Explanation, width: int) -> None:
    text = explained_text([study], width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    for said in ("waiting for a lock", "redo logging", "unaccounted", "not seen:", "disturbed:"):
        assert said in one_line(text)


def test_of_many_the_terminal_shows_the_answers(study: Explanation) -> None:
    text = explained_text([study] * 5)
    assert text.count("mysql-9.7.4 needs") == 5
    assert "client and wire" not in text
    assert "--candidate LEVEL" in text


def test_the_terminal_names_options_that_show_one_of_many(study: Explanation) -> None:
    said = one_line(explained_text([study] * 5))
    named = set(re.findall(r"--[a-z-]+", said))
    known = {name for option in explain_command.params for name in option.opts}
    assert "--test TEST" in said
    assert named <= known


def test_not_sure_is_explained_once_in_the_terminal(study: Explanation) -> None:
    text = explained_text([study])
    assert "not sure" in text
    assert text.count(NOT_SURE) == 1


def test_no_function_is_named_when_the_cpu_time_may_be_the_same(study: Explanation) -> None:
    rows = tuple(
        replace(row, significant=False) if row.key == "cpu_server" else row
        for row in study.efficiency
    )
    unsure = explained_text([replace(study, efficiency=rows)])
    assert "It is not sure after correction" in one_line(unsure)
    assert "of it is in" not in unsure
