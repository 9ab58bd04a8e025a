"""Test the one sentence at the top of a run's page, and what it leaves to the rest."""

from __future__ import annotations

import re

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run.html import as_html
from millrace.report.run.sentences import answer, summary
from tests.support.builders import RunBuilder, noisy

BASE, OTHER = "mysql-5.6.24", "mysql-8.0.33"


def of(times: dict[str, tuple[float, ...]]) -> RunAnalysis:
    return compare_run(RunBuilder(times).build())


def many(number: int, slower: int) -> RunAnalysis:
    """Return a comparison of many servers, some of which are slower, each by more than the last."""
    others = {
        f"mysql-8.4.{each}": noisy(4.0 + (each + 1 if each < slower else 0), 5, seed=each)
        for each in range(number)
    }
    return of({BASE: noisy(4.0, 5, seed=99), **others})


@pytest.mark.parametrize(("number", "slower"), [(1, 1), (2, 1), (3, 3), (12, 9), (40, 0), (40, 39)])
def test_summary_is_one_sentence_of_30_words_at_most(number: int, slower: int) -> None:
    found = summary(many(number, slower))
    assert len(found.split()) <= 30
    assert found.endswith(".")
    assert ". " not in found


def test_summary_names_the_largest_regressions_first() -> None:
    found = summary(many(12, 9))
    assert found.startswith(f"Of 12 comparisons with {BASE}: 9 regressions")
    assert "; largest regressions: mysql-8.4.8 is 3.23 times slower" in found
    assert " and mysql-8.4.7 gives " in found
    assert "mysql-8.4.6" not in found


def test_summary_names_the_largest_improvement_when_nothing_is_slower() -> None:
    found = summary(
        of({BASE: noisy(4.0, 5), OTHER: noisy(2.0, 5), "mysql-9.7.4": noisy(3.0, 5, seed=3)})
    )
    assert "2 improvements; largest improvements: mysql-8.0.33 gives " in found


def test_summary_of_one_comparison_says_how_far_apart_they_are() -> None:
    found = summary(of({BASE: noisy(4.0, 5), OTHER: noisy(6.0, 5, seed=2)}))
    assert found.startswith(f"Compared with {BASE}, {OTHER} gives ")
    assert found.endswith("fewer rows/s (regression).")


def test_summary_of_what_is_undecided_says_so() -> None:
    found = summary(of({BASE: noisy(4.0, 5), OTHER: (8.0, 4.2, 5.5, 4.1, 6.0)}))
    assert found.startswith(f"Not beyond doubt yet, compared with {BASE}: {OTHER}, slower in ")


def test_summary_of_failures_makes_no_comparison() -> None:
    assert summary(of({BASE: noisy(4.0, 5), OTHER: (None,) * 5})) == (  # type: ignore[dict-item]
        "No comparison could be made: no pair of trials has a result."
    )


def test_page_has_the_summary_alone_in_large_type() -> None:
    analysis = many(12, 9)
    page = as_html(analysis)
    (large,) = re.findall(r'<p class="answer">(.*?)</p>', page, re.DOTALL)
    assert len(re.sub(r"<[^>]+>", "", large).split()) <= 40  # with no-break spaces as words
    assert page.index('class="answer"') < page.index("<svg") < page.index('id="verdicts"')
    assert answer(analysis) != summary(analysis)
