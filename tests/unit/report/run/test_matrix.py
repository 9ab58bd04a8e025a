"""Test the overview of a large run: every comparison once, in every format."""

import csv
import io
import json
import re
from functools import partial

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.matrix import Matrix, is_large, matrix, sections
from millrace.report.run.sentences import verdict_text
from millrace.report.run.terminal import as_text, show
from tests.support.builders import Fails, study
from tests.support.query_runs import SERVERS, TESTS, Levels, QueryRun
from tests.support.reports import terminal_text

CLIENTS = (1, 8, 32)


@pytest.fixture(scope="module")
def large() -> RunAnalysis:
    return compare_run(QueryRun().build())


@pytest.fixture(scope="module")
def overview(large: RunAnalysis) -> Matrix:
    return matrix(large, large.headline)


def test_rows_are_groups_and_columns_servers(overview: Matrix) -> None:
    assert [section.heading for section in overview.sections] == list(TESTS)
    for section in overview.sections:
        assert [row.label for row in section.rows] == [f"clients {n}" for n in CLIENTS]
    assert [column.label for column in overview.columns] == list(SERVERS)
    units = {column.label: column.unit for column in overview.columns}
    assert {name for name, unit in units.items() if unit} == {"mysql-5.6.24"}


def test_every_cell_is_its_comparison(large: RunAnalysis, overview: Matrix) -> None:
    cells = 0
    of_section = [groups for _, groups in sections(large)]
    for section, groups in zip(overview.sections, of_section, strict=True):
        for row, group in zip(section.rows, groups, strict=True):
            by_level = {str(c.candidate): c for c in group.in_metric(large.headline)}
            for column, cell in zip(overview.columns, row.cells, strict=True):
                if column.unit:
                    assert cell.verdict is None
                    assert re.fullmatch(r"[\d,.]+", cell.text)
                    continue
                comparison = by_level[column.label]
                assert comparison.estimate is not None
                assert cell.text == f"{comparison.estimate.ratio:.3f}"
                assert cell.interval.startswith(f"{comparison.estimate.low:.3f}–")
                assert cell.verdict == verdict_text(comparison)
                assert column.label in cell.title
                cells += 1
    assert cells == len(large.comparisons()) == 90


def test_a_small_run_keeps_its_tables_first() -> None:
    assert not is_large(compare_run(study()))
    assert "relative to" not in as_text(compare_run(study()))


def test_nothing_to_compare_has_no_overview() -> None:
    analysis = compare_run(QueryRun(("mysql-5.6.24",), blocks=1).build())
    assert not is_large(analysis)
    for output_format in FORMATS:
        text = render(analysis, output_format)
        assert ("mysql-5.6.24" in text) == (output_format != "csv"), "CSV holds comparisons only"


def test_one_held_factor_needs_no_sections() -> None:
    analysis = compare_run(QueryRun(SERVERS[:3], TESTS, (8,), 3).build())
    overview = matrix(analysis, analysis.headline)
    assert [section.heading for section in overview.sections] == [""]
    assert [row.label for row in overview.sections[0].rows] == list(TESTS)
    assert overview.corner == "test"


def test_another_factor_than_the_server_can_be_compared() -> None:
    run = QueryRun(("mysql-5.6.24", "mysql-8.0.12"), TESTS[:2], (1, 8, 32), 3, compare="clients")
    analysis = compare_run(run.build(), base="8")
    overview = matrix(analysis, analysis.headline)
    assert [column.label for column in overview.columns] == ["1", "8", "32"]
    assert [section.heading for section in overview.sections] == list(TESTS[:2])
    assert [row.label for row in overview.sections[0].rows] == ["mysql-5.6.24", "mysql-8.0.12"]


def test_matrix_separates_failed_treatments_and_bases() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        base = levels["server"] == "mysql-5.6.24" and levels["test"] == "insert"
        candidate = levels["server"] == "mysql-9.7.4" and levels["test"] == "point-query"
        return Fails() if base or candidate else None

    analysis = compare_run(QueryRun(fails=fails).build())
    overview = matrix(analysis, analysis.headline)
    places = {column.label: number for number, column in enumerate(overview.columns)}
    first, last = overview.sections[0].rows[0], overview.sections[-1].rows[0]
    assert first.cells[places["mysql-9.7.4"]].verdict == "failed"
    assert last.cells[places["mysql-5.6.24"]].verdict == "failed"
    assert last.cells[places["mysql-9.7.4"]].verdict == "base failed"
    for output_format in FORMATS:
        render(analysis, output_format)


def test_unequal_work_is_noted_at_the_top_and_in_the_cell() -> None:
    run = QueryRun(
        also=lambda levels, block: (
            {"errors": 90_000.0 + block} if levels["server"] == "mysql-9.7.4" else {}
        )
    )
    analysis = compare_run(run.build())
    overview = matrix(analysis, analysis.headline)
    cell = overview.sections[0].rows[0].cells[4]
    assert cell.verdict == "inconclusive"
    assert "unequal work" in cell.title
    assert "15 comparisons are inconclusive: the work was unequal, not" in as_text(analysis)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_shows_every_cell_at_any_width(large: RunAnalysis, width: int) -> None:
    text = terminal_text(partial(show, large), width=width)
    overview = matrix(large, large.headline)
    for section in overview.sections:
        assert section.heading in text
        for row in section.rows:
            assert all(cell.text in text for cell in row.cells)
    tables = text[text.index("relative to mysql-5.6.24") : text.index("candidate / base")]
    assert max(map(len, tables.splitlines())) <= width


def test_a_row_of_csv_can_be_turned_into_the_same_table(large: RunAnalysis) -> None:
    rows = list(csv.DictReader(io.StringIO(render(large, "csv"))))
    of_headline = [row for row in rows if row["metric"] == "throughput"]
    assert {(r["test"], r["clients"], r["candidate"]) for r in of_headline} == {
        (test, str(clients), server)
        for test in TESTS
        for clients in CLIENTS
        for server in SERVERS
        if server != "mysql-5.6.24"
    }
    for row in of_headline:
        ratio = float(row["candidate_value"]) / float(row["base_value"])
        assert ratio == pytest.approx(float(row["ratio"]), rel=1e-9)


def test_json_holds_the_table_of_every_metric(large: RunAnalysis) -> None:
    document = json.loads(render(large, "json"))
    assert [table["metric"] for table in document["matrices"]] == [
        "throughput",
        "p99",
        "server_cpu",
    ]
    table = document["matrices"][0]
    assert len(table["rows"]) == 15
    row = table["rows"][1]
    assert row["fixed_factors"] == {"test": "point-query", "clients": 8}
    assert [cell["level"] for cell in row["cells"]] == list(SERVERS)
    base = row["cells"][1]
    assert (base["ratio"], base["verdict"]) == (None, None)
    assert base["value"] > 0
    other = row["cells"][0]
    assert other["low"] < other["ratio"] < other["high"]


def test_markdown_folds_details(large: RunAnalysis) -> None:
    text = render(large, "markdown")
    assert text.count("<details>") == text.count("</details>") > 3
