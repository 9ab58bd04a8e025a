"""Test the table of background clients, from measurements to every format."""

from __future__ import annotations

from dataclasses import replace

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.background_tables import background_table
from millrace.report.run.formats import render
from millrace.report.run.schema import ReportDocument
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
    table = background_table(analysed(with_latencies=True))
    assert table is not None
    deletes, inserts = (row.cells for row in table.sections[0].rows[:2])
    assert deletes[1:] == ("deletes", "5", "–", "0", "–", "–", "500 ms")
    assert inserts[1:5] == ("inserts", "19.9", "20", "9")
    assert not {"–", "250 ms"} & set(inserts)


def test_a_run_without_background_clients_has_no_table() -> None:
    assert background_table(analysed({})) is None


def test_every_format_has_them() -> None:
    analysis = analysed(with_latencies=True)
    for output_format in ("terminal", "markdown", "html"):
        assert "Background clients" in render(analysis, output_format)
    document = ReportDocument.model_validate_json(render(analysis, "json"), strict=True)
    deletes, inserts = document.treatments[0].background_clients
    assert (deletes.test, deletes.rate, deletes.throughput) == ("deletes", None, 5.0)
    assert (inserts.rate, inserts.late, inserts.longest_s) == (20.0, 9, 0.25)
    assert {each.of for each in document.treatments[0].latencies} == {"transaction", "background"}
