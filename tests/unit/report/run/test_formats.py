"""Test each format of the report, on a run that has a bit of everything."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import pytest
from jinja2.meta import find_undeclared_variables

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.common.flame_graph import as_svg, flame_graph
from millrace.report.common.pages import environment
from millrace.report.explanation.html import context
from millrace.report.run import notes, terminal
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.html import run_page
from millrace.report.run.json import ReportDocument
from millrace.report.run.tables import results_table
from millrace.shown_text import shown
from millrace.store.records import StoredRun
from tests.support.builders import Fails, RunBuilder, noisy, study
from tests.support.flame_trees import STACKS, tree
from tests.support.query_runs import QueryRun
from tests.support.reports import Page, terminal_text

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
def test_every_format_takes_every_run(output_format: str, run: StoredRun) -> None:
    text = render(compare_run(run), output_format)
    assert "nan" not in re.findall(r"\b\w+\b", text.lower())


def test_json_keeps_its_schema() -> None:
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


@pytest.mark.parametrize(("run", "n_tables"), [(study(), 4), (QueryRun().build(), 8)])
def test_markdown_tables_have_as_many_cells_as_heads(run: StoredRun, n_tables: int) -> None:
    text = render(compare_run(run), "markdown")
    tables = re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.MULTILINE)
    assert len(tables) >= n_tables
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
    text = terminal_text(partial(terminal.show, compare_run(study())), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    table = text[text.index("rows/s ") : text.index("mysql-5.7.22 gives")]
    for whole in ("mysql-5.7.22", "mariadb-10.2.11", "regression", "improvement", "failed"):
        assert whole in table


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_breaks_cells_and_cuts_none(width: int) -> None:
    analysis = compare_run(study())
    text = terminal_text(partial(terminal.show, analysis), width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    drawn = text[text.index("server ") : text.index("  mysql-5.7.22 gives")]
    table = results_table(analysis, analysis.headline, analysis.time)
    for number, column in enumerate(table.columns):
        if column.drop == 0:
            cells = "".join(row.cells[number] for part in table.sections for row in part.rows)
            assert Counter(cells.replace(" ", "")) <= Counter(drawn)


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


def test_html_names_a_base_without_variables() -> None:
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


def test_templates_show_the_fields_of_the_page_and_nothing_else() -> None:
    made = environment(())
    assert made.loader is not None
    used: set[str] = set()
    for name in ("report", "overview", "dependence", "results", "latencies", "context"):
        source, *_ = made.loader.get_source(made, f"{name}.html.j2")
        used |= find_undeclared_variables(made.parse(source))
    page = run_page(compare_run(study())).keys()
    assert page <= used
    given = {*context(()), "draw", "glyphs", "repeating", "first_line"}
    assert used <= page | given


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\u00a0=", "\uff1d"])
def test_no_text_of_csv_is_a_formula(sign: str) -> None:
    level = f"{sign}cmd"
    load_s = {"mysql-5.6.24": noisy(3, 3), "mysql-5.7.22": noisy(4, 3, seed=2)}
    run = RunBuilder(load_s, factors={"engine": [level, "InnoDB"]}).build()
    rows = list(csv.DictReader(io.StringIO(render(compare_run(run), "csv"), newline="")))
    assert {row["engine"] for row in rows} == {f"'{level}", "InnoDB"}
    assert all(float(row["ratio"]) > 0 for row in rows)


def test_a_command_of_several_lines_is_one_line_of_code_in_markdown() -> None:
    stored = study()
    command = "millrace run --new `x` | y\n# heading\n<script>alert(1)</script>"
    text = render(
        compare_run(replace(stored, run=replace(stored.run, millrace_command=command))), "markdown"
    )
    line = "millrace run --new '`x`' '|' y '#' heading '<script>alert(1)</script>'"
    assert f"\n    {line}\n" in text


def test_an_option_counts_once_however_many_treatments_ask_for_it() -> None:
    servers = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12")
    load_s = {server: noisy(3, 3, seed=n) for n, server in enumerate(servers)}
    run = RunBuilder(load_s, factors={"configuration": ["wmf"]}).build()
    lines = notes.warnings(compare_run(run))
    three = ", ".join(servers)
    taken = f"1 requested option (open_files_limit on {three}) took another value"
    assert taken in lines
    assert f"1 option (temp_pool on {three}) left out, which a server cannot have" in lines


_HARMLESS = "harmless"
_HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "-->",
    "]]><script>alert(1)</script>",
    "</title></svg><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' x=\"",
    "&lt;script&gt; &amp; &#x3c;",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "a\u2028b\u2029c\u202ed",
    "\x1b]52;c;aGk=\x07\x9b2J\x00",
]
_hostile = pytest.mark.parametrize("name", _HOSTILE, ids=range(len(_HOSTILE)))


class _Elements(HTMLParser):
    """A parser that counts a page's elements by their attributes, and keeps its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: Counter[tuple[str, ...]] = Counter()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements[(tag, *sorted(name for name, _ in attributes))] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def _run(name: str) -> RunBuilder:
    values = {"mysql-5.6.24": noisy(4, 3), name: noisy(5, 3, seed=2)}
    return RunBuilder(values, factors={"engine": [name, "InnoDB"]}, aliases={name: "mysql-5.7.22"})


@_hostile
def test_a_report_has_the_elements_that_it_has_with_harmless_names(name: str) -> None:
    page = _Elements(shown(render(compare_run(_run(name).build()), "html")))
    harmless = _Elements(shown(render(compare_run(_run(_HARMLESS).build()), "html")))
    assert set(page.elements) <= {*harmless.elements, ("wbr",)}
    assert not [element for element in page.elements if element[0] in ("script", "img")]
    assert shown(name) in page.text


@_hostile
def test_a_flame_graph_has_the_elements_that_it_has_with_harmless_names(name: str) -> None:
    def drawn(function: str, server: str) -> ElementTree.Element:
        root = tree(STACKS.replace("trans_commit_stmt(THD*, bool)", "commit"))
        renamed = replace(root, children=(replace(root.children[0], name=function),))
        return ElementTree.fromstring(shown(as_svg(flame_graph(renamed, a=server, b="b"))))

    def elements(root: ElementTree.Element) -> Counter[tuple[str, ...]]:
        return Counter((each.tag, *sorted(each.attrib)) for each in root.iter())

    hostile, harmless = drawn(name, name), drawn("x" * len(shown(name)), "a")
    assert elements(hostile) == elements(harmless)
    assert shown(name) in "".join(hostile.itertext())


def test_variables_that_differ_alike_everywhere_are_shown_once() -> None:
    text = render(compare_run(QueryRun().build()), "html")
    assert text.count("<summary>mysql-9.7.4 against mysql-5.6.24") == 1
