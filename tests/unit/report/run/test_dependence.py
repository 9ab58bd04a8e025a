"""Test the words on the factors on which differences depend, in each format."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.effects import dependences, main_terms
from millrace.analysis.compare.model import DIFFERENCES, RunAnalysis
from millrace.report.run.dependence import TITLE, dependence_part, dependence_text, where
from millrace.report.run.formats import render
from millrace.report.run.sentences import verdict_text
from millrace.report.run.terminal import as_text
from tests.support import crossed_runs
from tests.support.builders import Fails
from tests.support.crossed_runs import BINLOG, CANDIDATE
from tests.support.known import known
from tests.support.query_runs import SERVERS, Levels, QueryRun


def analysed(ratio: Callable[[Levels], float], **also: Any) -> RunAnalysis:
    return crossed_runs.analysed(ratio, **{"noise": 0.001, **also})


def said(ratio: Callable[[Levels], float], **also: Any) -> str:
    part = known(dependence_part(analysed(ratio, **also)))
    (text,) = part.sentences
    return text


def test_text_has_only_when_all_other_levels_are_the_same() -> None:
    def ratio(levels: Levels) -> float:
        return 0.94 if levels[BINLOG] == 1 else 1.0

    assert said(ratio).startswith("mysql-5.7.22 is slower only with sync_binlog = 1, by 6.")
    assert said(ratio).endswith("; elsewhere the difference is within 2 %.")
    noisy = said(lambda levels: 0.8 if levels[BINLOG] == 1 else 1.0, noise=0.025)
    assert "only" not in noisy
    assert noisy.endswith("; elsewhere none beyond 2 % is shown.")


def test_a_corner_of_two_factors() -> None:
    text = said(lambda levels: 0.8 if (levels["test"], levels["clients"]) == ("writes", 1) else 1.0)
    assert text.startswith("mysql-5.7.22 is slower only in writes at 1 client, by 20.")


def test_slower_here_and_faster_there() -> None:
    text = said(lambda levels: 0.9 if levels["clients"] == 1 else 1.2)
    assert text.startswith("mysql-5.7.22 is slower at 1 client, by ")
    assert ", and faster at 8 clients, by " in text


def test_slower_everywhere_and_more_with_a_setting() -> None:
    text = said(lambda levels: 0.69 if levels[BINLOG] == 1 else 0.88)
    assert text.startswith("mysql-5.7.22 is slower everywhere: with sync_binlog = 0 by 12.")
    assert " and with sync_binlog = 1 by 3" in text


def test_about_the_same_everywhere() -> None:
    text = said(lambda _levels: 0.88)
    assert text.startswith("mysql-5.7.22 is slower everywhere, by about 12.")
    assert text.endswith(": no comparison is off the mean by more than 2 %.")
    text = said(lambda _levels: 1.0)
    assert ", about as much everywhere: no comparison" in text
    assert text.startswith("mysql-5.7.22 differs by ")


def test_text_claims_nothing_when_noise_is_large() -> None:
    text = said(lambda _levels: 1.0, noise=0.06, blocks=4)
    assert "depends on test, clients or sync_binlog is not known" in text
    assert "everywhere" not in text


def test_many_levels_are_summed_up_by_their_ends() -> None:
    tests = tuple(f"test-{number}" for number in range(6))
    text = said(
        lambda levels: 0.9 - 0.05 * tests.index(str(levels["test"])), tests=tests, factors={}
    )
    assert " is slower everywhere: at 6 of 6 levels of test, by 1" in text
    assert " in test-0 to 3" in text
    assert text.endswith(" in test-5.")


def test_missing_comparisons_are_counted() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        is_one = (levels["server"], levels["test"], levels["clients"]) == (CANDIDATE, "reads", 8)
        return Fails() if is_one and levels[BINLOG] == 0 else None

    text = said(lambda _levels: 0.9, fails=fails)
    assert text.endswith(" 1 of 8 comparisons is left out: too few results.")


def test_levels_in_words() -> None:
    assert where({"clients": 1}) == "at 1 client"
    assert where({"test": "point-query", "clients": 8}) == "in point-query at 8 clients"
    assert where({"tls": True}) == "with tls on"
    assert where({BINLOG: 1}) == "with sync_binlog = 1"
    assert where({"configuration": "wmf"}) == "with wmf"


@pytest.mark.parametrize("output_format", ["terminal", "html", "markdown"])
def test_every_format_has_the_section(output_format: str) -> None:
    text = render(analysed(lambda levels: 0.94 if levels[BINLOG] == 1 else 1.0), output_format)
    assert TITLE in text
    assert "is slower only with sync" in text.replace("\\", "")


def test_json_has_all_terms_with_their_figures() -> None:
    analysis = analysed(lambda levels: 0.94 if levels[BINLOG] == 1 else 1.0)
    (found,) = json.loads(render(analysis, "json"))["dependences"]
    assert found["candidate"] == CANDIDATE
    assert found["sentence"].startswith("mysql-5.7.22 is slower only with sync_binlog = 1")
    assert [term["factors"] for term in found["terms"] if term["matters"]] == [[BINLOG]]
    assert len(found["terms"]) == 6
    (term,) = [term for term in found["terms"] if term["factors"] == [BINLOG]]
    assert [at["levels"] for at in term["at"]] == [{BINLOG: 0}, {BINLOG: 1}]
    assert term["at"][1]["here"]["high"] < 0.98


def test_a_large_run_keeps_a_terminal_short() -> None:
    text = as_text(compare_run(QueryRun(SERVERS, blocks=6).build()))
    assert TITLE in text
    assert "apart from the rest" not in text


COMPARISONS = [(test, clients) for test in ("reads", "writes", "scans") for clients in (1, 8)]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.sampled_from(COMPARISONS)), st.integers(1, 4), st.sampled_from([0.0005, 0.05]))
@example({("reads", 8), ("writes", 8), ("scans", 8)}, 3, 0.0005)
def test_text_claims_no_more_than_is_shown_when_trials_fail(
    failing: set[tuple[str, int]], blocks: int, noise: float
) -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        is_one = (levels["test"], levels["clients"]) in failing
        return Fails() if is_one and levels["server"] == CANDIDATE else None

    analysis = analysed(
        lambda levels: 0.8 if levels["clients"] == 1 else 1.0,
        tests=("reads", "writes", "scans"),
        factors={},
        fails=fails,
        blocks=blocks,
        noise=noise,
    )
    found = dependences(analysis)
    if blocks < 3 or len(COMPARISONS) - len(failing) < 2:
        assert found == ()
        return
    (dependence,) = found
    assert dependence.missing == len(failing)
    text = dependence_text(dependence, analysis)
    if failing:
        assert "everywhere, by" not in text
        assert "everywhere:" not in text
    for term in main_terms(dependence):
        rest = {at.verdict for at in term.at} - {"regression", "improvement"}
        assert (" only " in text) <= (rest == {"equivalent"})


def differing(analysis: RunAnalysis, **levels: Any) -> int:
    """Count the comparisons at these levels whose verdict in the matrix is a difference."""
    return sum(
        verdict_text(each) in DIFFERENCES
        for each in analysis.comparisons()
        if levels.items() <= dict(each.fixed_factors).items()
    )


@pytest.mark.parametrize("noise", [0.004, 0.02, 0.03])
@pytest.mark.parametrize("blocks", [3, 6])
def test_as_many_levels_are_slower_as_the_matrix_shows(noise: float, blocks: int) -> None:
    tests = tuple(f"test-{number}" for number in range(11))
    analysis = analysed(
        lambda levels: 1.0 - 0.05 * max(0, tests.index(str(levels["test"])) - 1),
        tests=tests,
        clients=(1,),
        factors={},
        blocks=blocks,
        noise=noise,
    )
    part = known(dependence_part(analysis))
    (text,) = part.sentences
    found = differing(analysis)
    assert found >= 3
    if found < len(tests):
        assert re.search(f" slower (only )?at {found} of 11 levels of test", text)
    assert "though" not in text


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from([0.85, 0.97, 1.0, 1.04, 1.2]), min_size=8, max_size=8),
    st.sampled_from([0.002, 0.02]),
)
def test_sentence_claims_nothing_that_the_matrix_refutes(ratios: list[float], noise: float) -> None:
    tests, clients = ("a", "b", "c", "d"), (1, 8)
    places = [(test, each) for test in tests for each in clients]
    by_place = dict(zip(places, ratios, strict=True))
    analysis = analysed(
        lambda levels: by_place[str(levels["test"]), int(levels["clients"])],
        tests=tests,
        clients=clients,
        factors={},
        noise=noise,
    )
    (dependence,) = dependences(analysis)
    text = dependence_text(dependence, analysis)
    for term in main_terms(dependence):
        for at in term.at:
            assert at.differing == differing(analysis, **at.levels)
        elsewhere = sum(at.differing for at in term.at if at.verdict not in DIFFERENCES)
        if elsewhere and len(main_terms(dependence)) == 1:
            assert " only " not in text
            assert "elsewhere the difference is within" not in text
            assert "single comparison" in text
