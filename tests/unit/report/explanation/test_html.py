"""Test the page of explanations, and its stacked bars."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.explain.explanation import Explanation, explain
from millrace.report.explanation.caveats import caveat_sentences
from millrace.report.explanation.html import FLAME_GRAPHS, stacked_bars
from millrace.report.explanation.sentences import answer, command, headings
from tests.support.explained import explained_page, explained_text, of_levels, study_run
from tests.support.known import known
from tests.support.observed_trials import A, B
from tests.support.reports import Page, one_line, page_text

SECTIONS = [
    "answer", "causes", "breakdown", "efficiency", "waits", "plans", "groups", "functions",
    "flame", "flat", "settings", "disturbances", "missing",
]  # fmt: skip


sizes = st.floats(-5, -0.001) | st.floats(0.001, 1e6) | st.just(0.0)


parts = st.lists(st.tuples(sizes, sizes), max_size=8)


def test_the_page_is_well_formed_in_order_and_loads_nothing(study: Explanation) -> None:
    found = Page(explained_page(study))
    assert found.open == []
    assert found.sections == [f"explanation-1-{name}" for name in SECTIONS]
    assert found.loads == ["script"], "our own, inside"


def test_only_our_script_may_run(study: Explanation) -> None:
    text = explained_page(study)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_a_page_without_graphs_has_no_script(little: Explanation) -> None:
    text = explained_page(little)
    assert "<script" not in text
    assert "script-src" not in text
    assert Page(text).sections == [
        f"explanation-1-{name}"
        for name in ("answer", "causes", "breakdown", "efficiency", "settings")
    ]


def test_every_section_begins_with_how_to_read_it(study: Explanation) -> None:
    text = explained_page(study)
    sections = re.findall(r'<section id="explanation-1-(\w+)">\n<h3>.*?</h3>\n(.*?)\n', text)
    assert [name for name, _ in sections] == SECTIONS[1:]
    assert all(line.startswith('<p class="how">') for _, line in sections)


def test_several_explanations_share_a_page(study: Explanation, little: Explanation) -> None:
    text = explained_page(study, little)
    found = Page(text)
    assert found.open == []
    assert len(set(found.sections)) == len(found.sections)
    links = re.findall(r'href="#([^"]+)"', text)
    assert set(links) <= set(found.sections)


def test_a_page_of_many_leaves_graphs_out(study: Explanation) -> None:
    text = explained_page(*[study] * (FLAME_GRAPHS + 1))
    assert 'class="flame-graph"' not in text
    assert "--flame-graph FILE" in text


def test_names_are_text(study: Explanation) -> None:
    nasty = "<script>alert(1)</script>"
    named = replace(study, b=replace(study.b, label=nasty))
    assert nasty not in explained_page(named)


def test_of_many_each_is_closed_with_its_answer_and_command(study: Explanation) -> None:
    text = explained_page(*[study] * 32)
    found = Page(text)
    assert found.open == []
    closed = re.findall(r'<details class="comparison"><summary>.*?</summary>', text)
    assert len(closed) == 32
    assert all("was disturbed" in page_text(each) for each in closed)
    assert f"millrace explain {study.run.id} --base {A} --candidate {B}" in text
    assert len(text) < 5_000_000


def test_plans_of_different_statements_are_shown_both(study: Explanation) -> None:
    (plan,) = study.plans
    apart = (
        replace(plan, statement="one", b=None, same=None, different=()),
        replace(plan, statement="two", a=None, same=None, different=()),
    )
    text = page_text(explained_page(replace(study, plans=apart)))
    assert f"Plan of {A}" in text
    assert f"Plan of {B}" in text
    assert "no plan of it is known" in text


@given(parts)
def test_segments_fill_the_bars_on_one_scale(sizes_us: list[tuple[float, float]]) -> None:
    keyed = [(f"part-{n}", a, b) for n, (a, b) in enumerate(sizes_us)]
    titles = {key: key for key, _, _ in keyed}
    totals = (sum(a for a, _ in sizes_us), sum(b for _, b in sizes_us))
    chart = stacked_bars(("A", "B"), totals, titles, keyed)
    if chart is None:
        assert not any(a > 0 or b > 0 for a, b in sizes_us)
        return
    ends = []
    for bar in chart.bars:
        at = 0.0
        for segment in bar.segments:
            assert segment.at == pytest.approx(at, abs=1e-6)
            assert segment.width >= 0
            at += segment.width
        ends.append(at)
    assert max(ends) == pytest.approx(100) or max(b.total_at for b in chart.bars) == pytest.approx(
        100
    )
    assert len(chart.links) == len(chart.bars[0].segments) == len(chart.legend)


def test_negative_parts_are_not_drawn() -> None:
    chart = known(stacked_bars(
        ("A", "B"), (9.0, 12.0), {"run": "running", "wire": "wire"},
        [("run", 10.0, 12.0), ("wire", -1.0, 0.0)],
    ))  # fmt: skip
    assert [segment.title for segment in chart.bars[0].segments] == ["running"]
    assert chart.bars[0].total_at == pytest.approx(75), "the whole ends before its parts"
    excess = known(chart.bars[0].excess)
    assert excess.at == pytest.approx(75)
    assert excess.width == pytest.approx(100 / 12)
    assert chart.bars[0].description == "A, 9 µs: running: 10 µs, counted twice: 1 µs"
    assert chart.bars[1].excess is None
    assert chart.exceeds


def test_few_samples_are_noted_at_the_tables_of_functions(study: Explanation) -> None:
    assert "few samples" not in explained_text([study])
    assert "few samples" not in page_text(explained_page(study))
    few = replace(study, b=replace(study.b, flat=replace(known(study.b.flat), samples=412)))
    said = f"few samples: 412 in {study.b.label}; more --profile-blocks give more"
    assert said in one_line(explained_text([few]))
    assert page_text(explained_page(few)).count(said) == 2  # by purpose, and by function


def test_values_of_an_option_are_named_and_short_in_tables() -> None:
    option = "options.innodb_flush_log_at_trx_commit"
    name = "innodb_flush_log_at_trx_commit"
    (found,) = explain(of_levels(study_run(), option, "0", "1"), factor=option, base="0",
                       candidate="1")  # fmt: skip
    cpu, _functions, latency = answer(found)
    assert cpu.startswith(f"With {name} = 1 the server needs ")
    assert f"than with {name} = 0: " in cpu
    assert f" µs with {name} = 1, " in latency
    assert f"longer than with {name} = 0: " in latency
    assert f"1 of 5 blocks of {name} = 1 was disturbed" in " ".join(caveat_sentences(found))
    assert headings(found) == ("A: 0", "B: 1")
    text = explained_text([found])
    assert f"A is {name} = 0, B is {name} = 1" in one_line(text)
    assert all(len(line) <= 120 for line in text.splitlines())
    html = explained_page(found)
    assert '<th scope="col" class="number">B: 1</th>' in html
    assert not re.search(r"[\d,.−+]<span class=\"name\">|\d</span>\d", html)
    assert "--base 0 --candidate 1" in command(found)


def test_functions_of_one_profiled_block_are_named_with_what_limits_them(
    study: Explanation,
) -> None:
    said = "one profiled block is one start of each server: the intervals are those of its number"
    assert said not in one_line(explained_text([study]))
    (first, *_) = known(study.profile).leading
    one = replace(study, profile=replace(known(study.profile), blocks=(1,), by="samples"))
    for text in (one_line(explained_text([one])), page_text(explained_page(one))):
        assert said in text
        assert f"Most of it is in Sql_cmd_insert_values::execute_inner (+{first.us:.2f} µs" in text
        assert "by 1 profiled block." in text
