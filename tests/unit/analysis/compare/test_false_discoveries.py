"""Test differences among many comparisons: which survive, and the text on the others."""

import math
from dataclasses import replace

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.false_discoveries import adjusted_p_values
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.report.run.matrix import matrix
from millrace.report.run.sentences import answer, sentence, verdict_text
from millrace.report.run.tables import results_table
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from tests.support.builders import Fails, RunBuilder
from tests.support.known import known, limits

BASE, SLOWER = "mysql-5.6.24", "mysql-5.7.22"
BLOCKS = 8


def times(log_ratio: float, spread: float) -> tuple[float, ...]:
    """Return times around 4 s, alternately above and below."""
    return tuple(4 * math.exp(log_ratio + spread * (-1) ** block) for block in range(BLOCKS))


def run(alike: int) -> RunAnalysis:
    """Return a run with one candidate that seems slower by 3 %, and several that are alike."""
    others = {f"mysql-8.0.{number}": times(0.0, 0.008) for number in range(alike)}
    return compare_run(
        RunBuilder({BASE: (4.0,) * BLOCKS, SLOWER: times(0.03, 0.0165), **others}).build()
    )


def slower_one(analysis: RunAnalysis) -> Comparison:
    return next(each for each in analysis.comparisons() if each.candidate == SLOWER)


def test_a_single_comparison_has_its_own_error_rate() -> None:
    comparison = slower_one(run(0))
    assert comparison.adjusted_p == known(comparison.estimate).p_value
    assert (comparison.verdict, comparison.not_significant) == ("regression", False)


def test_among_many_the_same_is_not_significant_and_is_not_counted() -> None:
    analysis = run(19)
    comparison = slower_one(analysis)
    assert comparison.verdict == "regression"
    assert comparison.not_significant
    assert verdict_text(comparison) == "may be chance"
    said = sentence(comparison, analysis)
    assert said.startswith(f"{SLOWER} against {BASE}: slower in every block, by 3.0 %, not yet ")
    assert " among 20 comparisons). " in said
    assert "regression by itself, may be chance. If it is as large as it looks, " in said
    assert ": 1 that may be chance (clearest: mysql-5.7.22, slower in every " in answer(analysis)
    (row,) = [
        row
        for row in results_table(analysis, analysis.headline, analysis.time).sections[0].rows
        if row.cells[0] == SLOWER
    ]
    assert row.verdict == "may be chance"
    cells = matrix(analysis, analysis.headline).sections[0].rows[0].cells
    assert [cell.verdict for cell in cells].count("may be chance") == 1


def test_among_many_more_blocks_are_needed() -> None:
    """A decided comparison needs further blocks among many, and an undecided one needs more."""
    assert slower_one(run(0)).more_blocks is None
    among = known(slower_one(run(19)).more_blocks)
    assert among > 0
    noisy = {BASE: (4.0,) * BLOCKS, SLOWER: times(0.03, 0.05)}
    like = {f"mysql-8.0.{number}": times(0.0, 0.008) for number in range(9)}
    alone, beside = (
        slower_one(compare_run(RunBuilder(each).build())) for each in (noisy, noisy | like)
    )
    assert alone.undecided
    assert beside.undecided
    assert (alone.more_blocks or 0) < (beside.more_blocks or 10_000)


def test_adjusted_p_is_with_the_verdict_when_comparisons_are_few() -> None:
    analysis = run(3)
    found = replace(slower_one(analysis), adjusted_p=0.07)
    groups = (replace(analysis.groups[0], comparisons=(found,)),)
    said = answer(replace(analysis, groups=groups))
    assert "nothing is beyond doubt yet: mysql-5.7.22, slower in every block, by 3.0 % (p " in said


def test_what_makes_no_claim_is_not_of_the_family() -> None:
    failing = {f"mysql-9.0.{number}": [Fails()] * BLOCKS for number in range(30)}
    analysis = compare_run(
        RunBuilder({BASE: (4.0,) * BLOCKS, SLOWER: times(0.03, 0.0165), **failing}).build()
    )
    assert slower_one(analysis).adjusted_p == slower_one(run(0)).adjusted_p
    assert {each.adjusted_p for each in analysis.comparisons() if each.verdict == "failed"} == {
        None
    }


def test_each_metric_is_a_family() -> None:
    found = {
        each.metric.name: each.adjusted_p
        for each in run(3).groups[0].comparisons
        if each.candidate == SLOWER
    }
    assert found["time"] == pytest.approx(found["throughput"])
    assert found["count_time"] not in (None, found["time"])


@pytest.mark.parametrize("looks", ["once", "any"])
def test_p_value_is_small_when_the_interval_excludes_1(looks: Looks) -> None:
    source = np.random.default_rng(3)
    sides = set()
    for size in np.linspace(0, 0.06, 25):
        logs = size + 0.02 * source.standard_normal(9)
        estimate = paired_ratio([1.0] * 9, np.exp(logs).tolist(), looks=looks)
        low, high = limits(estimate)
        excludes_1 = not low <= 1 <= high
        assert excludes_1 == (known(estimate.p_value) < 0.05)
        sides.add(excludes_1)
    assert sides == {True, False}


def estimates(source: np.random.Generator, truths: list[float]) -> list[RatioEstimate]:
    """Return comparisons with one base, whose noise they share."""
    base = 0.02 * source.standard_normal(6)
    return [
        paired_ratio(
            np.exp(base).tolist(), np.exp(truth + 0.02 * source.standard_normal(6)).tolist()
        )
        for truth in truths
    ]


def test_false_discoveries_are_few_in_every_matrix_of_like_with_like() -> None:
    source = np.random.default_rng(11)
    runs, alone, left = 200, 0, 0
    for _ in range(runs):
        found = estimates(source, [0.0] * 20)
        alone += any(each.p_value is not None and each.p_value <= 0.05 for each in found)
        left += any(p is not None and p <= 0.05 for p in adjusted_p_values(found))
    assert alone / runs > 0.3, "or there is nothing to correct"
    assert left / runs <= 0.05


def test_false_discoveries_are_few_beside_true_ones() -> None:
    source = np.random.default_rng(12)
    runs, share, true = 200, 0.0, 0
    for _ in range(runs):
        adjusted = adjusted_p_values(estimates(source, [0.0] * 10 + [0.2] * 5))
        found = [number for number, p in enumerate(adjusted) if p is not None and p <= 0.05]
        share += sum(number < 10 for number in found) / max(len(found), 1)
        true += sum(number >= 10 for number in found)
    assert share / runs <= 0.05
    assert true / (5 * runs) > 0.95
