"""Test that hostile names on pages and in graphs remain text."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.common.flame_graph import as_svg, flame_graph
from millrace.report.common.tables import Column, Row, Section, Table
from millrace.report.common.terminal_table import show_table
from millrace.report.run.formats import render
from millrace.shown_text import shown
from tests.support.builders import RunBuilder, noisy
from tests.unit.report.common.flame_trees import STACKS, tree

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
    return RunBuilder(
        values,
        factors={"engine": [name, "InnoDB"]},
        aliases={name: "mysql-5.7.22"},
    )


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


def test_a_name_in_a_table_of_the_terminal_stays_on_its_line() -> None:
    name, same = "a\nb\r\n\x1b[2J\tc", r"a\nb\r\n\x1b[2J\tc"
    table = Table("t", (Column("server"), Column(name)), (Section("", (Row((name, "1")),)),))
    out = io.StringIO()
    show_table(table, Console(file=out, width=200, color_system=None))
    head, _, row = (line.split() for line in out.getvalue().splitlines() if line.strip())
    assert (head, row) == (["server", same], [same, "1"])
