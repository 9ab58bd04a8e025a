"""Test each format of the report, on a run that has a bit of everything."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import fields, replace
from html.parser import HTMLParser
from importlib import resources

import pytest
from jinja2.meta import find_undeclared_variables
from rich.console import Console

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.common.pages import environment
from millrace.report.explanation.html import context
from millrace.report.run import terminal
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.html import RunPage
from millrace.report.run.schema import ReportDocument
from millrace.report.run.tables import results_table
from tests.support.builders import Fails, RunBuilder, noisy, study
from tests.unit.report.json_schema import json_schema

SECTIONS = [
    "answer", "verdicts", "dependence", "results", "bars", "ratios", "count_time", "published",
    "disk", "options", "variables", "provenance", "host", "failures", "method",
]  # fmt: skip


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize(
    "run",
    [
        study(),
        study(blocks=1),
        RunBuilder({"mysql-5.6.24": (None,), "mysql-5.7.22": (None,)}, published=None).build(),
        RunBuilder({"mysql-5.6.24": [Fails("start", "x")] * 3, "mysql-5.7.22": (1, 1, 1)}).build(),
        RunBuilder({"mysql-5.6.24": (4.0, 4.0, 4.0), "mysql-5.7.22": (4.0, 4.0, 4.0)}).build(),
        RunBuilder({"mysql-5.6.24": noisy(4, 3)}).build(),
    ],
    ids=["study", "one block", "nothing ended", "no base", "no spread", "one treatment"],
)
def test_every_format_takes_every_run(output_format: str, run: object) -> None:
    text = render(compare_run(run), output_format)  # type: ignore[arg-type]
    assert "nan" not in re.findall(r"\b\w+\b", text.lower())


def test_json_is_what_its_schema_says() -> None:
    analysis = compare_run(study())
    text = render(analysis, "json")
    document = ReportDocument.model_validate_json(text, strict=True)
    assert json.loads(text)["schema"] == "millrace.report/3"
    assert len(document.comparisons) == 2 * 2 * 3
    first = json.loads(text)["comparisons"][0]
    effect = ["ratio", "low", "high", "n_blocks", "verdict", "reason"]
    wanted = ["base", "candidate", "metric", "direction", "fixed_factors", *effect]
    assert all(name in first for name in wanted)
    assert first["low"] < first["ratio"] < first["high"]
    assert {c.verdict for c in document.comparisons} >= {"regression", "failed"}


def test_the_schema_file_is_up_to_date() -> None:
    file = resources.files("millrace.report") / "schema" / "report-3.schema.json"
    assert json.loads(file.read_text("utf-8")) == json_schema(ReportDocument)


def test_csv_has_a_row_a_comparison() -> None:
    analysis = compare_run(study())
    rows = list(csv.DictReader(io.StringIO(render(analysis, "csv"))))
    assert len(rows) == 2 * 2 * 3
    failed = [row for row in rows if row["verdict"] == "failed"]
    assert {row["ratio"] for row in failed} == {""}
    assert failed[0]["fixed_factors"] == "configuration=wmf;engine=InnoDB;load_mode=local"


def test_markdown_tables_have_as_many_cells_as_heads() -> None:
    text = render(compare_run(study()), "markdown")
    tables = re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.MULTILINE)
    assert len(tables) >= 4
    for table in tables:
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1


def test_markdown_and_html_take_names_as_text() -> None:
    nasty = "<script>alert(1)</script>|*x*"
    builder = RunBuilder(
        {"mysql-5.6.24": noisy(4, 3), nasty: noisy(4, 3)}, aliases={nasty: "mysql-5.6.24"}
    )
    analysis = compare_run(builder.build())
    assert "<script" not in render(analysis, "html")
    markdown = render(analysis, "markdown")
    assert "<script" not in markdown.replace("\\<", "")
    assert r"\|\*x\*" in markdown


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_terminal_cuts_nothing(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    terminal.show(compare_run(study()), console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    table = text[text.index("rows/s ") : text.index("mysql-5.7.22 gives")]
    for whole in ("mysql-5.7.22", "mariadb-10.2.11", "regression", "improvement", "failed"):
        assert whole in table


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_breaks_cells_and_cuts_none(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    analysis = compare_run(study())
    terminal.show(analysis, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    drawn = text[text.index("server ") : text.index("  mysql-5.7.22 gives")]
    table = results_table(analysis, analysis.headline, analysis.time)
    for number, column in enumerate(table.columns):
        if column.drop == 0:
            cells = "".join(row.cells[number] for part in table.sections for row in part.rows)
            assert Counter(cells.replace(" ", "")) <= Counter(drawn)


class Page(HTMLParser):
    """Ids of sections in order, elements that load something, and counted marks."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.loads: list[str] = []
        self.bars = 0
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "section":
            self.sections.append(given.get("id") or "")
        if tag in ("script", "img", "iframe") or "src" in given:
            self.loads.append(tag)
        if "href" in given and not str(given["href"]).startswith(("#", "data:")):
            self.loads.append(str(given["href"]))
        self.bars += tag == "rect" and "bar" in (given.get("class") or "").split()
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()


def test_html_is_well_formed_in_order_and_loads_nothing() -> None:
    text = render(compare_run(study()), "html")
    page = Page(text)
    assert page.open == []
    assert page.sections == SECTIONS
    assert page.loads == []
    assert "http" not in re.sub(r"http-equiv", "", text)
    assert page.bars == 5  # six treatments, one of which failed


def test_html_shows_the_hints_of_findings_with_commands_as_code() -> None:
    finding = {"check": "other load", "status": "warn", "observed": "<2>", "why": "w"}
    findings = [{**finding, "hint": "stop it: `top -c <x>` shows it"}]
    page = render(
        compare_run(RunBuilder({"mysql-5.6.24": (4.0,)}, findings=findings).build()), "html"
    )
    assert "stop it: <code>top -c &lt;x&gt;</code> shows it" in page
    assert "`" not in page


def test_html_says_whose_variables_are_missing() -> None:
    times = {"mysql-5.6.24": [Fails()] * 3, "mysql-5.7.22": (1, 1, 1)}
    run = RunBuilder(times).build()  # type: ignore[arg-type]
    attempts = tuple(
        replace(a, instances=tuple(replace(i, effective={}) for i in a.instances))
        if a.outcome == "failed"
        else a
        for a in run.attempts
    )
    page = re.sub(r"<[^>]+>", "", render(compare_run(replace(run, attempts=attempts)), "html"))
    assert "The base mysql-5.6.24 has no variables recorded" in page
    assert "No two servers" not in page


def test_html_shows_what_was_found() -> None:
    text = re.sub(r"<[^>]+>", "", render(compare_run(study()), "html"))
    for said in (
        "open_files_limit",
        "left out: unknown to this version",
        "MariaDB 10.2.2",
        "KVM",
        "[ERROR] Aborting",
        "millrace run --new experiments/load-data.toml --scale demo",
        "seed 7",
    ):
        assert said in text


def test_templates_show_the_fields_of_the_page_and_nothing_else() -> None:
    made = environment(())
    assert made.loader is not None
    used: set[str] = set()
    for name in ("report", "overview", "dependence", "results", "latencies", "context"):
        source, *_ = made.loader.get_source(made, f"{name}.html.j2")
        used |= find_undeclared_variables(made.parse(source))
    page = {field.name for field in fields(RunPage)}
    assert page <= used
    given = {*context(()), "draw", "glyphs", "repeating", "first_line"}
    assert used <= page | given
