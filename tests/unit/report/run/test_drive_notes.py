"""Test the report on steady and unsteady trials, in every format."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run import drive_notes
from millrace.report.run.drive_notes import steady_conditions, steady_warnings
from millrace.report.run.drive_tables import steady_table
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.schema import ReportDocument
from tests.support.builders import study
from tests.support.query_runs import Levels, QueryRun
from tests.support.seconds import Series, events

BASE, OTHER = NAMES = ("mysql-5.6.24", "mysql-8.0.12")


def analysed(*, unsteady: int = 0, n_seconds: int = 30, **changes: Any) -> RunAnalysis:
    """Return five blocks; this many trials of the candidate lose a fifth of their throughput."""

    def series(levels: Levels, block: int) -> Series:
        name = f"{levels['server']}{block}".encode()
        noise = 0.01 * np.random.default_rng(list(name)).standard_normal(n_seconds)
        falls = levels["server"] == OTHER and block < unsteady
        shape = 1 - 0.2 * falls * np.arange(n_seconds) / n_seconds
        return events(list(14_000 * (shape + noise)), warmup=[14_000.0] * 5)

    return compare_run(QueryRun(NAMES, ("point-query",), (8,), 5, series=series, **changes).build())


def test_trials_that_were_not_steady_are_counted_with_their_reasons() -> None:
    (line,) = list(steady_warnings(analysed(unsteady=2)))
    assert line.startswith("2 of 5 trials of mysql-8.0.12 were not steady: throughput fell by ")
    assert line.endswith(" % over the measured part")
    refused, counted = list(steady_warnings(analysed(unsteady=4)))
    assert refused.startswith("1 comparison is inconclusive: ")
    assert counted.startswith("4 of 5 trials of mysql-8.0.12")


def test_of_many_treatments_the_first_are_told() -> None:
    def series(_levels: Levels, _block: int) -> Series:
        return events(list(14_000 - 200.0 * np.arange(30)), warmup=[14_000.0] * 5)

    tests = ("point-query", "update-index", "insert", "oltp_read_write")
    run = QueryRun(NAMES, tests, (8,), 3, series=series).build()
    lines = list(steady_warnings(compare_run(run)))
    assert len(lines) == 1 + 6 + 1
    assert lines[0].startswith("4 comparisons are inconclusive: ")
    assert lines[-1] == "2 more treatments had trials that were not steady"


def test_steady_and_short_trials_are_conditions_not_warnings() -> None:
    steady, short = analysed(), analysed(n_seconds=3)
    assert list(steady_warnings(steady)) == list(steady_warnings(short)) == []
    assert list(steady_conditions(steady)) == [
        "10 of 10 trials were steady while they were measured"
    ]
    (line,) = steady_conditions(short)
    assert line.startswith("10 of 10 trials were too short to tell ")
    by_work = analysed(parameters={"operations": 100_000})
    (line,) = steady_conditions(by_work)
    assert line.startswith("a steady state is not asked for: ")
    assert not list(steady_conditions(compare_run(study())))
    assert set(steady_warnings(analysed(unsteady=2))) <= set(
        drive_notes.warnings(analysed(unsteady=2))
    )


@pytest.mark.parametrize("output_format", ["terminal", "html", "markdown", "json"])
def test_every_format_tells_it(output_format: str) -> None:
    text = re.sub(r"<[^>]*>|\\", "", render(analysed(unsteady=4), output_format))
    text = " ".join(html.unescape(text).split())
    assert "4 of 5 trials of mysql-8.0.12" in text
    assert "warmup_s = 35" in text


@pytest.mark.parametrize("output_format", list(FORMATS))
def test_no_format_minds_what_is_not_known(output_format: str) -> None:
    for n_seconds in (1, 3):
        assert render(analysed(n_seconds=n_seconds), output_format)


def test_json_has_every_trial_with_its_course_and_gates() -> None:
    document = ReportDocument.model_validate_json(render(analysed(unsteady=4), "json"), strict=True)
    assert document.comparisons[0].unsteady is not None
    base, other = document.treatments
    assert {trial.state for trial in base.steadiness} == {"steady"}
    assert [trial.block for trial in other.steadiness] == [0, 1, 2, 3, 4]
    assert [trial.trend for trial in other.steadiness[:4]] == ["drift"] * 4
    assert other.steadiness[0].enough_s == pytest.approx(35.0)
    assert {gate.result for gate in base.steadiness[0].checks} == {"unknown"}
    loads = json.loads(render(compare_run(study()), "json"))["treatments"][0]
    assert {trial["state"] for trial in loads["steadiness"]} == {"does not apply"}
    assert json.loads(render(analysed(), "json"))["comparisons"][0]["unsteady"] is None


def test_the_table_has_a_row_a_treatment() -> None:
    table = steady_table(analysed(unsteady=2))
    assert table is not None
    base, other = table.sections[0].rows
    assert base.cells[:7] == (BASE, "5", "0", "0", "30", "5.0", base.cells[6])
    assert other.cells[1:4] == ("3", "2", "0")
    assert other.cells[-1].startswith("throughput fell by ")
    assert steady_table(compare_run(study())) is None
