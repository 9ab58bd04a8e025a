"""Test the sections and notes of explanations in each format."""

from __future__ import annotations

import re
from dataclasses import replace

from millrace.analysis.explain.explanation import Explanation, explain
from millrace.cli.explain import command as explain_command
from millrace.report.explanation.caveats import NOT_SURE, ONE_BLOCK
from millrace.report.explanation.sentences import (
    answer,
    coverage_text,
)
from millrace.report.explanation.tables import breakdown_table
from tests.support.observed_trials import A, B
from tests.unit.report.explanation.explained import (
    explained_text,
    first_blocks,
    study_run,
)
from tests.unit.report.explanation.test_formats import page, text_of
from tests.unit.report.run.test_formats import Page


def test_of_many_each_is_closed_with_its_answer_and_command(study: Explanation) -> None:
    text = page(*[study] * 32)
    found = Page(text)
    assert found.open == []
    closed = re.findall(r'<details class="comparison"><summary>.*?</summary>', text)
    assert len(closed) == 32
    assert all("was disturbed" in text_of(each) for each in closed)
    assert f"millrace explain {study.run.id} --base {A} --candidate {B}" in text
    assert len(text) < 5_000_000


def test_the_terminal_names_options_that_show_one_of_many(study: Explanation) -> None:
    said = " ".join(explained_text([study] * 5).split())
    named = set(re.findall(r"--[a-z-]+", said))
    known = {name for option in explain_command.params for name in option.opts}
    assert "--test TEST" in said
    assert named <= known


def test_the_terminal_tells_background_sources_and_plans(study: Explanation) -> None:
    text = " ".join(explained_text([study]).split())
    assert "CPU time of background threads" in text
    assert "threads that serve clients: server CPU" in text
    assert f"insert_next in {A}: ref of sbtest1 by k_1, 3 rows" in text
    assert f"insert_next in {B}: ALL of sbtest1, 20000 rows" in text


def test_few_samples_are_told_beside_the_tables_of_functions(study: Explanation) -> None:
    assert "few samples" not in explained_text([study])
    assert "few samples" not in text_of(page(study))
    assert study.b.flat is not None
    few = replace(study, b=replace(study.b, flat=replace(study.b.flat, samples=412)))
    said = f"few samples: 412 in {study.b.label}; more --profile-blocks give more"
    assert said in " ".join(explained_text([few]).split())
    assert text_of(page(few)).count(said) == 2  # by purpose, and by function


def test_functions_of_one_profiled_block_are_named_with_what_limits_them(
    study: Explanation,
) -> None:
    said = "one profiled block is one start of each server: the intervals are those of its number"
    assert said not in " ".join(explained_text([study]).split())
    assert study.profile is not None
    (first, *_) = study.profile.leading
    one = replace(study, profile=replace(study.profile, blocks=(1,), by="samples"))
    for text in (" ".join(explained_text([one]).split()), text_of(page(one))):
        assert said in text
        assert f"Most of it is in Sql_cmd_insert_values::execute_inner (+{first.us:.2f} µs" in text
        assert "by 1 profiled block." in text


def test_no_function_is_named_when_the_cpu_time_may_be_the_same(study: Explanation) -> None:
    rows = tuple(
        replace(row, significant=False) if row.key == "cpu_server" else row
        for row in study.efficiency
    )
    unsure = explained_text([replace(study, efficiency=rows)])
    assert "It is not sure after correction" in " ".join(unsure.split())
    assert "of it is in" not in unsure


def test_plans_of_different_statements_are_shown_both(study: Explanation) -> None:
    (plan,) = study.plans
    apart = (
        replace(plan, statement="one", b=None, same=None, different=()),
        replace(plan, statement="two", a=None, same=None, different=()),
    )
    text = text_of(page(replace(study, plans=apart)))
    assert f"Plan of {A}" in text
    assert f"Plan of {B}" in text
    assert "no plan of it is known" in text


def test_not_sure_is_explained_once_in_the_terminal(study: Explanation) -> None:
    text = explained_text([study])
    assert "not sure" in text
    assert text.count(NOT_SURE) == 1


def test_the_sides_have_intervals_and_what_is_left_a_percentage(study: Explanation) -> None:
    assert study.differences is not None
    table = breakdown_table(study.differences, (A, B), "transaction")
    assert [column.title for column in table.columns[1:5]] == [A, "±", B, "±"]
    *_, left, latency = table.sections[0].rows
    assert re.fullmatch(r"unaccounted \(−?\d+ % and −?\d+ %\)", left.cells[0])
    assert float(latency.cells[2]) > 0
    assert latency.verdict == "more"


def test_one_block_is_told_as_what_it_is() -> None:
    (found,) = explain(first_blocks(study_run(profiled=0), 1), factor="server", base=A, candidate=B)
    assert all("(one block: it may be chance)" in sentence for sentence in answer(found))
    assert found.differences is not None
    rows = breakdown_table(found.differences, (A, B), "transaction").sections[0].rows
    assert {row.verdict for row in rows[:-2]} == {"?"}
    assert ONE_BLOCK in explained_text([found])
    assert Page(page(found)).open == []


def test_what_holds_in_no_table_is_not_said(study: Explanation) -> None:
    """The table corrects for its number of rows, and the sentence agrees with the table."""
    rows = tuple(
        replace(row, significant=False) if row.key == "cpu_server" else row
        for row in study.efficiency
    )
    cpu = next(s for s in answer(replace(study, efficiency=rows)) if "server CPU" in s)
    assert cpu.startswith("It is not sure after correction ")
    assert f" that {B} needed " in cpu


def test_instruments_that_cover_more_than_all_say_why(study: Explanation) -> None:
    assert study.b.coverage is not None
    more = replace(study.b.coverage, waits_us=190.0, blocked_us=40.0, spinning_us=None)
    said = coverage_text(more)
    assert "more than all of 40 µs blocked" in said
    assert "%" not in said


def test_clients_are_counted() -> None:
    (found, *_) = explain(
        study_run(profiled=0, clients=(1, 16)), factor="clients", base=1, candidate=16
    )
    said = " ".join(answer(found))
    assert "µs with 16 clients" in said
    assert "with 1 client" in said
    assert "in clients" not in said
