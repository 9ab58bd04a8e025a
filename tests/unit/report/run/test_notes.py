"""Test the notes that qualify a report."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.counts.compare_counts import compare_counts
from millrace.model.instance_facts import InstanceFacts
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.notes import conditions, counted_lines, warnings
from millrace.report.run.tables import trials_table
from millrace.store.records import InstanceRecord, OptionRecord, StoredAttempt, StoredRun
from tests.support import counted_starts
from tests.support.builders import Fails, RunBuilder, extended, measured, noisy, study
from tests.support.reports import one_line

BASE, OTHER, THIRD = "mysql-5.6.24", "mysql-5.7.22", "mariadb-10.2.11"
RUN = RunBuilder({BASE: (4.0,) * 3, OTHER: (2.0,) * 3, THIRD: (2.0,) * 3}).build()


def test_a_plain_run_has_no_notes() -> None:
    assert warnings(compare_run(RUN)) == []


@pytest.mark.parametrize(
    ("collectors", "is_noted"), [((), True), (("status",), False), (None, False)]
)
def test_run_without_collectors_has_one_note(
    collectors: tuple[str, ...] | None, is_noted: bool
) -> None:
    spec = RUN.run.spec.model_copy(update={"collectors": collectors})
    analysis = compare_run(replace(RUN, run=replace(RUN.run, spec=spec)))
    lines = [line for line in conditions(analysis) if "no collector observed" in line]
    assert len(lines) == is_noted
    assert render(analysis, "html").count("no collector observed") == is_noted


def test_a_load_that_waited_for_rows_is_named_with_its_share() -> None:
    analysis = compare_run(measured(RUN, "load_row_wait_s", {BASE: 0.039, OTHER: 0.098}))
    (note,) = warnings(analysis)
    assert note.endswith(f"so the server may be faster than measured: {OTHER} 5.0 %")
    assert BASE not in note  # 0.99 %


def test_the_wait_is_a_column_of_the_trials_where_measured() -> None:
    analysis = compare_run(measured(RUN, "load_row_wait_s", {OTHER: 0.098}))
    table = trials_table(analysis, analysis.headline)
    assert table.columns[-1].title == "waited for rows, % of load"
    assert [row.cells[-1] for row in table.sections[0].rows] == ["–", "5.00", "–"]
    assert len(trials_table(compare_run(RUN), analysis.headline).columns) == len(table.columns) - 1
    assert "waited for rows" in render(analysis, "html")


@pytest.mark.parametrize(
    ("counts", "result"),
    [
        ({BASE: 0, OTHER: 12, THIRD: 0}, f"{BASE} 0, {OTHER} 12"),
        ({BASE: 12, OTHER: 3, THIRD: 0}, f"{BASE} 12, {OTHER} 3, {THIRD} 0"),
        ({BASE: 12, OTHER: 12, THIRD: 12}, None),
        ({BASE: 0, OTHER: 0, THIRD: 0}, None),
        ({OTHER: 12}, None),
    ],
)
def test_warnings_of_the_load_are_noted_when_they_differ(
    counts: dict[str, float], result: str | None
) -> None:
    analysis = compare_run(measured(RUN, "load_warnings", counts))
    notes = warnings(analysis)
    assert [note.partition("unequal: ")[2] for note in notes] == ([result] if result else [])
    assert [c.verdict for c in analysis.comparisons()] == [
        c.verdict for c in compare_run(RUN).comparisons()
    ]


def test_option_with_another_name_is_noted() -> None:
    why = f"{OTHER} has innodb_redo_log_capacity in its place: 512M"
    gone = OptionRecord("innodb_log_file_size", "256M", "mine", optional=False, left_out=why)

    def with_option(attempt: StoredAttempt) -> StoredAttempt:
        instances = tuple(
            replace(each, options=(gone,)) if each.server.name == OTHER else each
            for each in attempt.instances
        )
        return replace(attempt, instances=instances)

    stored = replace(RUN, attempts=tuple(map(with_option, RUN.attempts)))
    notes = warnings(compare_run(stored))
    assert notes.count(f"innodb_log_file_size: {why}") == 1


def test_blocks_added_after_a_look_are_noted() -> None:
    run = RunBuilder({BASE: noisy(4, 10), OTHER: noisy(4, 10)}).build()
    (note,) = warnings(compare_run(extended(run, 10, at_block=5)))
    assert "added after a first look (5, then 10)" in note
    assert note.endswith("for any number of looks")


def test_another_base_is_named_where_the_base_failed() -> None:
    failing = [Fails("start", "no")] * 3
    analysis = compare_run(RunBuilder({BASE: failing, OTHER: failing, THIRD: [2.0] * 3}).build())
    hint = (
        f"the base has no result ({BASE}): "
        f"`millrace report {analysis.run.id} --base {THIRD}` compares with another"
    )
    assert warnings(analysis) == ["6 of 9 trials failed", hint]
    page = render(analysis, "html")
    assert f"<code>{hint.split('`')[1]}</code>" in page
    assert f"The base {BASE} has no variables" not in page  # it has, in this store


def test_no_base_is_proposed_that_has_no_result_either() -> None:
    times = {BASE: [Fails("start", "no")] * 3, OTHER: [Fails("start", "no")] * 3}
    assert warnings(compare_run(RunBuilder(times).build())) == ["6 of 6 trials failed"]


def test_limits_of_an_attached_server_are_noted_once() -> None:
    facts = {"limits": ["it cannot be stopped", "its log cannot be observed"]}
    analysis = compare_run(with_facts(RUN, facts, of=OTHER))
    (note,) = warnings(analysis)
    assert note.startswith(f"{OTHER} is attached, ")
    assert note.endswith(": it cannot be stopped; its log cannot be observed")
    limits = {s["name"]: s["limits"] for s in json.loads(render(analysis, "json"))["servers"]}
    assert limits == {BASE: [], OTHER: facts["limits"], THIRD: []}
    for output_format in ("terminal", "markdown", "html"):
        text = one_line(render(analysis, output_format))
        assert "its log cannot be observed" in text


def with_facts(stored: StoredRun, facts: Mapping[str, Any], of: str | None = None) -> StoredRun:
    """Return ``stored`` with these facts of its instances, or of one server's."""

    def result(instance: InstanceRecord) -> InstanceRecord:
        return (
            replace(instance, facts=InstanceFacts.model_validate(facts))
            if of in (None, instance.server.name)
            else instance
        )

    attempts = tuple(replace(a, instances=tuple(map(result, a.instances))) for a in stored.attempts)
    return replace(stored, attempts=attempts)


SAID = "new executes 6.4 % more instructions than old"


def counted_analysis(comparisons: int = 1) -> RunAnalysis:
    ((found,),) = (
        each.comparisons
        for each in compare_counts([counted_starts.BASE, counted_starts.MORE], "server", "old")
    )
    return replace(compare_run(study()), instructions=(("point-query", found),) * comparisons)


def test_each_format_has_the_sentences_of_counts() -> None:
    for name in FORMATS:
        if name in ("terminal", "markdown", "json"):
            assert SAID in one_line(render(counted_analysis(), name)), name
    document = json.loads(render(counted_analysis(2), "json"))
    assert [SAID in each for each in document["instructions"]] == [True, True]
    assert json.loads(render(compare_run(study()), "json"))["instructions"] == []


def test_of_many_counts_the_first_stand_for_all() -> None:
    lines = counted_lines(counted_analysis(9))
    assert len(lines) == 7
    assert "not speed; the functions that differ, and 3 more comparisons: " in lines[-1]
    assert counted_lines(compare_run(study())) == []
