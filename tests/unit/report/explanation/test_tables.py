"""Test the tables of statements' time breakdowns, and the notes on profiles."""

import json
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from millrace.analysis.explain.explanation import Explanation
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.profiles import FlatLine, FlatProfile
from millrace.analysis.explain.statement_breakdown import statement_breakdown_differences
from millrace.report.explanation import tables
from millrace.report.explanation.html import as_html
from millrace.report.explanation.json import as_json
from millrace.report.explanation.sentences import answer
from tests.support.asked_statements import TRANSACTION, Asked, Seen
from tests.support.explained import explained_study, explained_text, with_statements

SLOW = {**TRANSACTION, "update": Asked(2, {"running": 25.0, "lock": 160.0, "network": 9.0})}
LABELS = ("old", "new")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    source = np.random.default_rng(3)
    a = [Seen(TRANSACTION, 20_000, source).trial(block) for block in range(5)]
    b = [Seen(SLOW, 20_000, source).trial(block) for block in range(5)]
    return with_statements(explained_study(), a, b)


def sentence_between(a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]) -> str:
    return tables.statement_sentence(statement_breakdown_differences(a, b), "transaction")


def three_trials(asked: Mapping[str, Asked]) -> list[ObservedTrial]:
    return [Seen(asked).trial(block) for block in range(3)]


def test_a_section_for_each_statement_that_differs_most_first(explained: Explanation) -> None:
    table = tables.statement_breakdown_table(
        explained.statement_breakdown_differences, LABELS, "transaction"
    )
    assert table is not None
    headings = [section.heading for section in table.sections]
    assert headings[0] == "update"
    assert sorted(headings) == sorted(SLOW)
    first = table.sections[0].rows
    assert [row.cells[0] for row in first[:1]] == ["waiting for a lock"]
    assert first[0].verdict == "more"
    left, total, all_of_it = first[-3:]
    assert left.cells[0].startswith("unaccounted")
    assert (total.cells[0], total.is_total) == ("latency", True)
    assert (all_of_it.cells[0], all_of_it.cells[5]) == ("all 1 and 2 in a transaction", "+294.0")
    select = table.sections[headings.index("select")].rows[-1]
    assert (select.cells[0], select.cells[1]) == ("all 10 in a transaction", "490.0")
    assert table.sections[headings.index("BEGIN")].rows[-1].is_total
    assert {len(row.cells) for section in table.sections for row in section.rows} == {
        len(table.columns)
    }
    # Parts near zero on both sides have no row.
    assert "sleeping" not in {row.cells[0] for row in first}


def test_the_sentence_names_the_statement_and_its_part(explained: Explanation) -> None:
    sentence = tables.statement_sentence(explained.statement_breakdown_differences, "transaction")
    assert "update, sent 1 and 2 times, differs most: +294.0 µs of a transaction;" in sentence
    # One execution takes 60 µs, two take 160 each: µs per transaction, as in the whole.
    (part,) = re.findall(
        r"; the largest part of that is waiting for a lock, \+([\d.]+) µs", sentence
    )
    assert float(part) == pytest.approx(260, rel=0.1)
    assert sentence in answer(explained)
    assert tables.statement_sentence((), "transaction") == ""
    # The part that another one offsets is not the largest share of the difference.
    spent = {"running": 60.0, "lock": 70.0, "data_read": 0.0, "network": 9.0}
    given_back = {"running": 5.0, "lock": 95.0, "data_read": 50.0, "network": 9.0}
    a, b = (three_trials({**TRANSACTION, "update": Asked(1, each)}) for each in (spent, given_back))
    sentence = sentence_between(a, b)
    assert "update differs most: +20.0 µs" in sentence
    assert "the largest part of that is reading data, +50.0 µs" in sentence
    alike = three_trials(TRANSACTION)
    assert sentence_between(alike, alike) == ""


def test_no_part_is_named_that_goes_another_way() -> None:
    """The increase is in no observed part, and the observed parts decreased."""
    before, after = (
        three_trials({**TRANSACTION, "update": Asked(1, {"running": ran}, unseen)})
        for ran, unseen in ((30.0, 0.0), (10.0, 200.0))
    )
    sentence = sentence_between(before, after)
    assert sentence.endswith("update differs most: +180.0 µs of a transaction.")
    # Sent more often, an execution may be shorter in each part, and all of them longer.
    once, thrice = (
        three_trials({**TRANSACTION, "update": Asked(times, {"running": ran, "lock": 5.0})})
        for times, ran in ((1, 90.0), (3, 80.0))
    )
    sentence = sentence_between(once, thrice)
    assert "update, sent 1 and 3 times, differs most: +160" in sentence
    assert sentence.endswith("on CPU, or ready without one, +150.0 µs (not sure).")


def test_what_was_not_tested_is_not_sure() -> None:
    """Use a single block."""
    a, b = ([Seen(asked).trial()] for asked in (TRANSACTION, SLOW))
    sentence = sentence_between(a, b)
    assert sentence.endswith(" µs (not sure).")


def test_page_terminal_and_document_have_them(explained: Explanation) -> None:
    title = "Where the time of each statement goes"
    text = explained_text([explained])
    assert title in text
    assert "of 1 more statement on the page" in text
    assert "all 1 and 2 in a transaction" in text
    page = as_html([explained], explained.run)
    assert title in page
    assert all(name in page for name in SLOW)
    (result,) = json.loads(as_json([explained], explained.run))["explanations"]
    assert [each["name"] for each in result["a"]["statement_breakdowns"]] == list(TRANSACTION)
    differences = result["statement_breakdown_differences"]
    assert differences[0]["name"] == "update"
    assert differences[0]["breakdown"]["lines"][0]["key"] == "lock"


def test_a_transaction_of_one_statement_has_no_second_table() -> None:
    alone = explained_study()
    assert alone.statement_breakdown_differences == ()
    title = "Where the time of each statement goes"
    assert title not in explained_text([alone])
    assert title not in as_html([alone], alone.run)


def flat(samples: int = 1_204, *, trials: int = 2, runs: int = 2, lines: int = 0) -> FlatProfile:
    return FlatProfile(
        trials=trials,
        runs=runs,
        event="cycles",
        call_graph="dwarf",
        user_only=False,
        samples=samples,
        lost=0,
        cpu_us=12.5,
        lines=(FlatLine(1, 0.5, "mysqld", "f", 0.1),) * lines,
    )


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (flat(runs=17), "1,204 samples of cycles in 2 trials of 17 runs, 12.5 µs of CPU time"),
        (flat(), "1,204 samples of cycles in 2 trials, 12.5 µs of CPU time"),
        (flat(trials=1, runs=20), "1,204 samples of cycles in 1 trial of 20 runs, 12.5 µs of"),
        (flat(lines=tables.FLAT_LINES + 2), "; 2 further functions have 1.0 % of them"),
    ],
)
def test_flat_note_describes_the_profile(result: FlatProfile, said: str) -> None:
    assert said in tables.flat_note(result)


def test_few_samples_note_names_the_sides() -> None:
    many, few, none = flat(tables.FEW_SAMPLES), flat(tables.FEW_SAMPLES - 1), flat(3)
    assert tables.few_samples_note([("old", many), ("new", many)]) is None
    assert tables.few_samples_note([("old", None), ("new", many)]) is None
    assert tables.few_samples_note([("old", many), ("new", few)]) == (
        "few samples: 999 in new; more --profile-blocks give more"
    )
    note = tables.few_samples_note([("old", few), ("new", none)])
    assert note is not None
    assert "999 in old, 3 in new; " in note
