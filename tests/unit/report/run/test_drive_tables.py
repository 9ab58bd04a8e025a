"""Test the tables of driven clients, from measurements to every format."""

import json
import re
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import shown
from millrace.report.run import drive_tables, notes
from millrace.report.run.charts import loop_charts
from millrace.report.run.drive_notes import conditions, warnings
from millrace.report.run.formats import render
from millrace.report.run.html import as_html
from millrace.report.run.json import ReportDocument, as_json
from millrace.report.run.markdown import as_markdown
from millrace.report.run.tables import sizes_table
from millrace.store.records import LoopOperation, LoopRecord
from tests.support.builders import study
from tests.support.driven_runs import TWO, falling_candidate, few, rows
from tests.support.hdr import FINE, encoded
from tests.support.known import known
from tests.support.query_runs import QueryRun, Values

KEPT: Values = {
    "measure_duration_s": 10.0,
    "inserts_background_done": 199.0, "inserts_background_scheduled": 200.0,
    "inserts_background_late": 3.0, "inserts_background_longest_s": 0.25,
    "deletes_background_done": 50.0, "deletes_background_longest_s": 0.5,
}  # fmt: skip


def analysed(figures: Values = KEPT, *, with_latencies: bool = False) -> RunAnalysis:
    stored = QueryRun(
        ("mysql-5.6.24", "mysql-8.0.12"), ("point-query",), (8,), 3,
        also=lambda _levels, _block: figures,
    ).build()  # fmt: skip
    if with_latencies:
        attempts = tuple(
            replace(
                each,
                histograms=(
                    *each.histograms,
                    *(replace(one, of="background", name="inserts") for one in each.histograms),
                ),
            )
            for each in stored.attempts
        )
        stored = replace(stored, attempts=attempts)
    return compare_run(stored)


def test_rates_and_latencies_of_each_group_are_there() -> None:
    table = known(drive_tables.background_table(analysed(with_latencies=True)))
    deletes, inserts = (row.cells for row in table.sections[0].rows[:2])
    assert deletes[1:] == ("deletes", "5", "–", "0", "–", "–", "500 ms")
    assert inserts[1:5] == ("inserts", "19.9", "20", "9")
    assert not {"–", "250 ms"} & set(inserts)


def test_a_run_without_background_clients_has_no_table() -> None:
    assert drive_tables.background_table(analysed({})) is None


def test_every_format_has_them() -> None:
    analysis = analysed(with_latencies=True)
    for output_format in ("terminal", "markdown", "html"):
        assert "Background clients" in render(analysis, output_format)
    document = ReportDocument.model_validate_json(render(analysis, "json"), strict=True)
    deletes, inserts = document.treatments[0].background_clients
    assert (deletes.test, deletes.rate, deletes.throughput) == ("deletes", None, 5.0)
    assert (inserts.rate, inserts.late, inserts.longest_s) == (20.0, 9, 0.25)
    assert {each.of for each in document.treatments[0].latencies} == {"transaction", "background"}


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
    assert drive_tables.loop_tables(analysis) == []
    assert loop_charts(analysis.groups, analysis.factor) == ()
    assert 'id="loops"' not in as_html(analysis)


def test_each_treatment_has_its_throughput_by_loop() -> None:
    analysis = in_loops(cold=2)
    throughput, allocated = drive_tables.loop_tables(analysis)
    assert [c.title for c in throughput.columns][1:] == [f"loop {n}" for n in shown(24)]
    cells = [row.cells[1:] for section in throughput.sections for row in section.rows]
    assert all(999 <= float(row[0].replace(",", "")) <= 1000 for row in cells)
    assert all(975 <= float(row[-1]) <= 978 for row in cells)
    assert sum(row[1].endswith("*") for row in cells) == 1
    assert allocated.sections[0].rows[0].cells[1] == "1.0 MB"
    assert "in 24 loops on tables that aged" in conditions(analysis)[0]
    assert "loops were restarted cold" in " ".join(warnings(analysis))


def test_warnings_name_a_cold_last_loop() -> None:
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


def test_json_holds_latencies_work_and_conditions_in_si_units() -> None:
    document = ReportDocument.model_validate_json(render(few(), "json"), strict=True)
    treatment = document.treatments[0]
    (latency,) = treatment.latencies
    assert (latency.of, latency.time, latency.count) == ("transaction", "service", 360)
    assert latency.percentiles_s["50"] < latency.percentiles_s["99.9"] <= latency.maximum_s < 0.01
    assert [work.block for work in treatment.work] == [0, 1, 2]
    assert known(treatment.conditions).client_s == pytest.approx(9e-6)
    assert {metric.name: metric.unit for metric in document.metrics}["p99"] == "s"
    assert (
        ReportDocument.model_validate_json(render(compare_run(study()), "json"))
        .treatments[0]
        .latencies
        == []
    )


def test_latencies_have_their_unit_and_response_time_its_row() -> None:
    cells = rows(drive_tables.latency_table(few(), "transaction"))
    assert [row[:3] for row in cells] == [(name, "point-query", "service") for name in TWO]
    assert all(re.fullmatch(r"[\d.,]+ (µs|ms|s)", text) for row in cells for text in row[3:-1])
    cells = rows(drive_tables.latency_table(few(open_loop=True), "transaction"))
    assert [row[2] for row in cells] == ["service", "response"] * 2


def test_statements_are_shown_where_a_transaction_has_several() -> None:
    assert drive_tables.latency_table(few(statements=("point_select",)), "statement") is None
    several = few(statements=("BEGIN", "point_select", "COMMIT"))
    assert len(rows(drive_tables.latency_table(several, "statement"))) == 6


def test_costs_are_a_transaction_s() -> None:
    cells = rows(drive_tables.cost_table(few()))
    assert cells[0] == ("mysql-5.6.24", "50 µs", "9 µs", "1.01", "26.4 %", "0 %")


MAINTENANCE: Values = {
    "maintenance_s": 3.0, "maintenance_statements": 1.0, "maintenance_longest_s": 3.0,
    **{f"{part}_{what}": 1.0 for part in ("before", "during", "after")
       for what in ("s", "transactions")},
}  # fmt: skip


def test_maintenance_has_its_tables_and_the_clients_three_parts() -> None:
    figures: Values = {
        "maintenance_s": 3.0, "maintenance_statements": 10.0, "maintenance_longest_s": 0.7,
        "file_removal_s": 1.0, "maintenance_own_s": 2.0,
        "before_s": 5.0, "during_s": 3.0, "after_s": 5.0,
        "before_transactions": 5_000.0, "during_transactions": 1_500.0, "after_transactions": 0.0,
    }  # fmt: skip
    analysis = few(also=lambda _levels, _block: figures)
    statements, parts = drive_tables.maintenance_tables(analysis)
    assert rows(statements)[0] == (
        TWO[0], "300 ms", "100 ms", "200 ms", "33.3 %", "700 ms", "30",
    )  # fmt: skip
    assert [row[1:4] for row in rows(parts)[:3]] == [
        ("before", "1,000", "100.0 %"), ("during", "500", "50.0 %"), ("after", "0", "0.0 %"),
    ]  # fmt: skip
    for output_format in ("terminal", "markdown", "html"):
        assert statements.title in render(analysis, output_format)
    document = ReportDocument.model_validate_json(render(analysis, "json"), strict=True)
    maintenance = known(document.treatments[0].maintenance)
    assert maintenance.removal_s == pytest.approx(0.1)
    assert drive_tables.maintenance_tables(few()) == []


def test_maintenance_that_is_only_partly_stored_is_none() -> None:
    partly: Values = {"maintenance_s": 3.0, "maintenance_statements": 10.0, "before_s": 5.0}
    assert drive_tables.maintenance_tables(few(also=lambda _levels, _block: partly)) == []


def test_tables_that_maintenance_may_have_dropped_have_no_sizes() -> None:
    sizes: Values = {"table_allocated_bytes": 4096.0, "table_rows": 50.0}
    table = known(sizes_table(few(also=lambda _levels, _block: sizes)))
    assert rows(table)[0][1:4] == ("50", "4.1 kB", "81.9 bytes")
    analysis = few(also=lambda _levels, _block: {**sizes, **MAINTENANCE})
    assert sizes_table(analysis) is None
    assert {treatment.table_rows for treatment in analysis.treatments} == {None}


def test_missing_removal_times_have_their_reason() -> None:
    analysis = few(
        also=lambda _levels, _block: MAINTENANCE,
        facts=lambda _levels: {"file_removal_unknown": "this kernel traces no events"},
    )
    assert rows(drive_tables.maintenance_tables(analysis)[0])[0][2:5] == ("–", "–", "–")
    assert any(
        "removing files is not known" in line and line.endswith("traces no events")
        for line in notes.warnings(analysis)
    )


def test_steady_table_has_a_row_a_treatment() -> None:
    table = known(drive_tables.steady_table(falling_candidate(2)))
    base, other = table.sections[0].rows
    assert base.cells[:7] == (TWO[0], "5", "0", "0", "30", "5.0", base.cells[6])
    assert other.cells[1:4] == ("3", "2", "0")
    assert other.cells[-1].startswith("throughput fell by ")
    assert drive_tables.steady_table(compare_run(study())) is None
