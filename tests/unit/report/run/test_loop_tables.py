"""Test the loops of trials from their figures to tables, charts and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import shown
from millrace.report.run.drive_notes import conditions, warnings
from millrace.report.run.html import as_html
from millrace.report.run.json import as_json
from millrace.report.run.loop_tables import loop_charts, loop_tables
from millrace.report.run.markdown import as_markdown
from millrace.store.loops import LoopOperation, LoopRecord
from tests.support.hdr import FINE, encoded
from tests.support.query_runs import QueryRun

OPERATION = LoopOperation(
    name="add_node", count=3, sum_s=0.006, encoded=encoded([1_000_000, 2_000_000, 3_000_000], FINE)
)
SMALL = QueryRun(servers=("mysql-5.6.24", "mysql-5.7.22"), tests=("point",), clients=(1,))


def in_loops(number: int = 24, *, cold: int | None = None) -> RunAnalysis:
    """Return a run whose throughput falls by 1 a loop; one loop of one trial was restarted cold."""
    stored = SMALL.build()

    def figures(loop: int, attempt: int) -> LoopRecord:
        return LoopRecord(
            loop=loop,
            transactions=2 * (1000 - loop) + 2 * (attempt % 2),
            errors=0,
            duration_s=2.0,
            restarted_cold=loop == cold and attempt == 0,
            apparent_bytes=2_000_000,
            allocated_bytes=1_000_000 + loop,
            operations=(OPERATION,),
        )

    attempts = tuple(
        replace(attempt, loops=tuple(figures(loop, at) for loop in range(1, number + 1)))
        for at, attempt in enumerate(stored.attempts)
    )
    return compare_run(replace(stored, attempts=attempts))


@pytest.mark.parametrize(
    ("most", "expected"),
    [(0, ()), (1, (1,)), (3, (1, 2, 3)), (24, (1, 2, 4, 8, 12, 16, 24)), (8, (1, 2, 4, 8))],
)
def test_some_loops_of_many_are_shown(most: int, expected: tuple[int, ...]) -> None:
    assert shown(most) == expected


def test_a_run_without_loops_has_no_table_of_them() -> None:
    analysis = compare_run(SMALL.build())
    assert loop_tables(analysis) == []
    assert loop_charts(analysis.groups, analysis.factor) == ()
    assert 'id="loops"' not in as_html(analysis)


def test_each_treatment_has_its_throughput_by_loop() -> None:
    analysis = in_loops(cold=2)
    throughput, allocated = loop_tables(analysis)
    assert [c.title for c in throughput.columns][1:] == [f"loop {n}" for n in shown(24)]
    cells = [row.cells[1:] for section in throughput.sections for row in section.rows]
    assert all(999 <= float(row[0].replace(",", "")) <= 1000 for row in cells)
    assert all(975 <= float(row[-1]) <= 978 for row in cells)
    assert sum(row[1].endswith("*") for row in cells) == 1
    assert allocated.sections[0].rows[0].cells[1] == "1.0 MB"
    assert "in 24 loops on tables that aged" in conditions(analysis)[0]
    assert "loops were restarted cold" in " ".join(warnings(analysis))


def test_a_cold_last_loop_is_said_because_it_is_compared() -> None:
    assert "the last loop, which is compared" in " ".join(warnings(in_loops(cold=24)))


@pytest.mark.parametrize("most", [501, 1000])
def test_charts_of_many_loops_leave_out_points_but_no_mark(most: int) -> None:
    analysis = in_loops(most)
    (line, *_) = (
        line for chart in loop_charts(analysis.groups, analysis.factor) for line in chart.lines
    )
    assert [round(1 + mark.x * (most - 1) / 100) for mark in line.marks] == list(shown(most))
    assert len(line.pieces[0].split()) <= 500 + len(shown(most))


def test_charts_pages_and_json_have_the_loops() -> None:
    analysis = in_loops()
    charts = loop_charts(analysis.groups, analysis.factor)
    assert len(charts) == len(analysis.groups)
    for line in (line for chart in charts for line in chart.lines):
        assert all(0 <= mark.x <= 100 and 0 <= mark.y <= 100 for mark in line.marks)
        assert [mark.x for mark in line.marks][0::6] == [0, 100]
    assert 'id="loops"' in as_html(analysis)
    assert "Throughput by loop" in as_markdown(analysis)
    loops = json.loads(as_json(analysis))["treatments"][0]["loops"]
    assert [each["loop"] for each in loops] == list(range(1, 25))
    assert loops[23]["latencies"][0]["percentiles_s"]["50"] == pytest.approx(0.002, rel=0.01)
    assert loops[22]["latencies"] == []
