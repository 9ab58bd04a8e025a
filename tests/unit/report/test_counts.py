"""Test the words, tables and documents of instruction counts."""

from dataclasses import replace
from functools import partial

import pytest

from millrace.analysis.counts.compare_counts import CountedRun, compare_counts
from millrace.analysis.counts.model import CountComparison, CountGroup
from millrace.model.instruction_counts import TreatmentStarts
from millrace.report.common.flame_graph import as_svg
from millrace.report.counts import as_json, count_graph, fraction_text, notes, sentence, show
from tests.support.builders import study
from tests.support.counted_starts import BASE, MORE, start, treatment
from tests.support.reports import terminal_text


def groups(*others: TreatmentStarts) -> tuple[CountGroup, ...]:
    return compare_counts([BASE, *others], "server", "old")


def comparison(*others: TreatmentStarts) -> CountComparison:
    ((found,),) = (each.comparisons for each in groups(*others))
    return found


def counted(*others: TreatmentStarts) -> CountedRun:
    run = study().run
    versions = {**run.versions, "valgrind": "3.19.0"}
    return CountedRun(replace(run, name="count-e", versions=versions), 3, groups(*others))


def shown(*others: TreatmentStarts) -> str:
    return terminal_text(partial(show, counted(*others)), width=160)


def test_more_instructions_are_not_called_slower() -> None:
    said = sentence(comparison(MORE))
    assert said.startswith("new executes 6.4 % more instructions than old (6.3 % to 6.5 %; ")
    assert "1,065 and 1,001 per statement" in said
    text = shown(MORE)
    assert f"{said}." in text
    assert not {"slower", "faster than", "speedup"} & set(text.split())
    assert "Instructions are not speed" in text


def test_fewer_instructions_have_their_interval_the_right_way_round() -> None:
    fewer = treatment("new", [start(900, 901), start(905, 903), start(897, 899)])
    said = sentence(comparison(fewer))
    assert said.startswith("new executes 10.0 % fewer instructions than old (9.3 % to 10.7 %; ")


def test_a_difference_that_starts_do_not_show_has_its_width() -> None:
    like = treatment("again", [start(1001, 1001), start(1002, 1002), start(1001, 1001)])
    assert sentence(comparison(like)).startswith(
        "again executes as many instructions as old, to within 0.17 % (1,001 and 1,001"
    )


def test_sentence_of_a_single_start_names_it() -> None:
    single = comparison(treatment("new", MORE.starts[:1]))
    assert "in a single start" in sentence(single)
    assert single.verdict == "single start"


def test_a_count_that_is_refused_has_its_reason() -> None:
    failed = treatment("broken", [], failure="it does not start")
    assert sentence(comparison(failed)) == "broken has no count: it does not start"
    assert "refused" in shown(failed)


def test_the_table_has_the_functions_with_their_callers() -> None:
    (row,) = (line for line in shown(MORE).splitlines() if "extra" in line)
    assert row.split() == ["+64", "0", "64", "extra,", "only", "in", "B", "read"]


def test_the_flame_graph_counts_instructions() -> None:
    svg = as_svg(count_graph(comparison(MORE)))
    assert "Width: instructions per statement" in svg
    assert "only in B: 64.3 instructions, 6.0 %" in svg
    assert "A: old" in svg
    assert "µs" not in svg.partition("<script>")[0]


def test_notes_are_listed_once() -> None:
    tests = [treatment(str(each.levels["server"]), each.starts, test="scan", program=each.program)
             for each in (BASE, MORE)]  # fmt: skip
    found = compare_counts([BASE, MORE, *tests], "server", "old")
    assert [each.split(" ")[0] for each in notes(found)] == ["old", "only", "Instructions"]
    left_out = treatment("new", [*MORE.starts, start(1000, 2000)])
    assert any("new: 1 start left out" in each for each in notes(groups(left_out)))


def test_the_document_has_what_the_terminal_has() -> None:
    found = counted(MORE, treatment("broken", [], failure="no"))
    document = as_json(found)
    assert document["schema"] == "millrace.counts/1"
    assert (document["experiment"], document["valgrind"], document["starts"]) == ("e", "3.19.0", 3)
    assert (document["run"], document["scale"]) == (found.run.id, found.run.scale)
    (group,) = document["groups"]
    assert [each["levels"]["server"] for each in group["treatments"]] == ["old", "new", "broken"]
    assert group["treatments"][2]["instructions"] is None
    more, refused = group["comparisons"]
    assert (more["base"], more["candidate"], more["verdict"]) == ("old", "new", "more")
    assert more["functions"][0]["callers"] == ["run", "read"]
    assert (refused["verdict"], refused["ratio"], refused["functions"]) == ("refused", None, [])


def test_counts_without_any_spread_have_no_interval_to_say() -> None:
    exact = [treatment(name, [start(cost)] * 2) for name, cost in (("old", 1000), ("new", 1065))]
    ((found,),) = (each.comparisons for each in compare_counts(exact, "server", "old"))
    assert sentence(found) == (
        "new executes 6.50 % more instructions than old (all counts alike; 1,065 and 1,000 per "
        "statement)"
    )
    same = compare_counts([exact[0], replace(exact[0], levels={**exact[0].levels, "server": "x"})],
                          "server", "old")  # fmt: skip
    assert sentence(same[0].comparisons[0]).startswith("x executes exactly as many instructions as")


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.065, "6.5 %"), (-0.0004, "0.04 %"), (0.00994, "0.99 %"), (1.5, "150.0 %")],
)
def test_small_fractions_have_more_decimals(fraction: float, text: str) -> None:
    assert fraction_text(fraction) == text
