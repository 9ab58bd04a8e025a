"""Test the charts of a replica's lag over time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.html import as_html
from millrace.report.run.lag_charts import lag_charts
from tests.support.query_runs import QueryRun

SERVERS, TESTS = ("mysql-5.6.24", "mysql-5.7.22"), ("point-query", "insert")
LAG = tuple((at / 4, min(at, 80 - at) / 8) for at in range(81))


@pytest.fixture(scope="module")
def analysis() -> RunAnalysis:
    return compare_run(QueryRun(SERVERS, TESTS, (1,)).build())


def test_a_line_a_replica_that_fell_behind_and_caught_up(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    assert lag_charts([group], analysis.factor) == ()
    first, *others = group.treatments
    lagging = replace(group, treatments=(replace(first, lag=LAG), *others))
    (chart,) = lag_charts([lagging], analysis.factor)
    (line,) = chart.lines
    assert line.label in first.label
    assert all(0 <= mark.x <= 100 and 0 <= mark.y <= 100 for mark in line.marks)
    assert min(line.marks, key=lambda mark: mark.y).title.endswith("10.0 s: 5 s behind")
    assert [tick.label for tick in chart.across] == ["0 s", "5 s", "10 s", "15 s", "20 s"]
    assert line.marks[0].y == line.marks[-1].y == 100


def test_a_replica_that_never_fell_behind_has_a_flat_line(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    flat = replace(group.treatments[0], lag=((0.0, 0.0),))
    (chart,) = lag_charts([replace(group, treatments=(flat,))], analysis.factor)
    assert {mark.y for mark in chart.lines[0].marks} == {100}


def test_a_long_run_keeps_its_page_small_and_its_peak(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    lag = tuple((at / 4, 100.0 if at == 50_001 else 1.0) for at in range(100_000))
    long = replace(group.treatments[0], lag=lag)
    (chart,) = lag_charts([replace(group, treatments=(long,))], analysis.factor)
    (points,) = chart.lines[0].pieces
    assert points.count(" ") < 2000
    assert ",0.00" in points


def test_the_page_has_the_lag_of_a_run_with_a_replica_alone(analysis: RunAnalysis) -> None:
    assert 'id="lag"' not in as_html(analysis)
    group = analysis.groups[0]
    lagging = replace(group, treatments=tuple(replace(t, lag=LAG) for t in group.treatments))
    page = as_html(replace(analysis, groups=(lagging, *analysis.groups[1:])))
    assert 'id="lag"' in page
    assert "Lag of the replica over time" in page
