"""Test what the report of a run says of counted instructions."""

from __future__ import annotations

import json
from dataclasses import replace

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.counts.compare_counts import compare_counts
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.notes import counted_lines
from tests.support.builders import study
from tests.support.counted_starts import BASE, MORE

SAID = "new executes 6.4 % more instructions than old"


def analysis(comparisons: int = 1) -> RunAnalysis:
    ((found,),) = (each.comparisons for each in compare_counts([BASE, MORE], "server", "old"))
    return replace(compare_run(study()), instructions=(("point-query", found),) * comparisons)


def test_each_format_has_the_sentences_of_counts() -> None:
    for name in FORMATS:
        if name in ("terminal", "markdown", "json"):
            assert SAID in " ".join(render(analysis(), name).split()), name
    document = json.loads(render(analysis(2), "json"))
    assert [SAID in each for each in document["instructions"]] == [True, True]
    assert json.loads(render(compare_run(study()), "json"))["instructions"] == []


def test_of_many_counts_the_first_stand_for_all() -> None:
    lines = counted_lines(analysis(9))
    assert len(lines) == 7
    assert "not speed; the functions that differ, and 3 more comparisons: " in lines[-1]
    assert counted_lines(compare_run(study())) == []
