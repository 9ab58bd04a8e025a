"""Test the model over a matrix of comparisons: found effects and stated error rates."""

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy import stats

from millrace.stats.effects import Cell, FactorEffects, Term, factor_effects
from tests.support.known import known

FACTORS = ("workload", "clients", "binlog")
LEVELS = (("reads", "writes", "scans"), ("1", "8", "64"), ("off", "on"))
NOISE: Mapping[str, float] = {"reads": 0.01, "writes": 0.04, "scans": 0.02}

Truth = Callable[[str, str, str], float]


def matrix(source: np.random.Generator, truth: Truth, *, blocks: int = 6) -> list[Cell]:
    """Return each comparison from this many blocks, with the noise of its workload."""
    cells = []
    for levels in itertools.product(*LEVELS):
        values = truth(*levels) + NOISE[levels[0]] * source.standard_normal(blocks)
        error = float(values.std(ddof=1)) / math.sqrt(blocks)
        cells.append(Cell(levels, float(values.mean()), error, blocks))
    return cells


def nothing(workload: str, clients: str, binlog: str) -> float:
    return 0.0


def with_the_binlog(workload: str, clients: str, binlog: str) -> float:
    return -0.06 * (binlog == "on")


def writes_of_one_client(workload: str, clients: str, binlog: str) -> float:
    return -0.15 * (workload == "writes" and clients == "1")


def seen(found: Term) -> list[tuple[str, ...]]:
    """Return the levels at which a term that matters has a significant difference."""
    assert found.matters
    return [each.levels for each in found.at if each.seen]


def term(effects: FactorEffects, *factors: str) -> Term:
    (found,) = [each for each in effects.terms if each.factors == factors]
    return found


def test_without_noise_the_effects_are_those_of_the_table() -> None:
    """Compare with means of rows, columns and cells, as in the balanced analysis of variance."""
    source = np.random.default_rng(1)
    table = source.normal(size=(3, 3, 2))
    cells = [
        Cell(tuple(LEVELS[f][i] for f, i in enumerate(index)), float(table[index]), 0.01, 5)
        for index in np.ndindex(table.shape)
    ]
    effects = factor_effects(FACTORS, cells)
    assert math.log(effects.overall.ratio) == pytest.approx(table.mean())
    here = [math.log(each.here.ratio) for each in term(effects, "clients").at]
    assert here == pytest.approx(table.mean(axis=(0, 2)))
    apart = [math.log(each.apart.ratio) for each in term(effects, "clients").at]
    assert apart == pytest.approx(table.mean(axis=(0, 2)) - table.mean())
    pairs = [math.log(each.here.ratio) for each in term(effects, "workload", "binlog").at]
    assert pairs == pytest.approx(table.mean(axis=1).ravel())


def test_a_factor_of_two_levels_is_welchs_test() -> None:
    cells = [Cell(("a",), 0.02, 0.01, 4), Cell(("b",), 0.07, 0.02, 9)]
    found = term(factor_effects(("x",), cells), "x")
    by_welch = stats.ttest_ind_from_stats(
        0.02, 0.01 * 2, 4, 0.07, 0.02 * 3, 9, equal_var=False
    ).pvalue
    assert found.p_value == pytest.approx(by_welch)
    assert found.at[0].apart.p_value == pytest.approx(by_welch)


def test_slower_only_with_the_binlog_on() -> None:
    effects = factor_effects(FACTORS, matrix(np.random.default_rng(3), with_the_binlog))
    assert seen(term(effects, "binlog")) == [("on",)]
    assert not term(effects, "workload").matters
    assert term(effects, "binlog").at[1].here.high < 1


def test_interaction_is_separate_from_its_factors() -> None:
    found = term(
        factor_effects(FACTORS, matrix(np.random.default_rng(5), writes_of_one_client)),
        "workload",
        "clients",
    )
    assert seen(found) == [("writes", "1")]
    ratio = next(each.here for each in found.at if each.levels == ("writes", "1"))
    assert ratio.low < math.exp(-0.15) < ratio.high


def test_pairs_that_are_not_all_there_are_no_terms() -> None:
    cells = matrix(np.random.default_rng(1), nothing)
    some = [cell for cell in cells if cell.levels[:2] != ("reads", "8")]
    names = {each.factors for each in factor_effects(FACTORS, some).terms}
    assert ("workload", "clients") not in names
    assert ("clients", "binlog") in names


def test_a_factor_of_one_level_is_no_term() -> None:
    cells = [cell for cell in matrix(np.random.default_rng(1), nothing) if cell.levels[2] == "on"]
    effects = factor_effects(FACTORS, cells)
    assert {each.factors for each in effects.terms} == {
        ("workload",),
        ("clients",),
        ("workload", "clients"),
    }
    assert effects.unexplained_p is None


def test_one_comparison_is_its_own_effect() -> None:
    effects = factor_effects(("x",), [Cell(("a",), 0.1, 0.01, 5)])
    assert effects.overall.ratio == pytest.approx(math.exp(0.1))
    assert effects.terms == ()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([], "at least one comparison"),
        ([Cell(("a",), 0.0, 0.1, 5)], "1 levels for 2 factors"),
        ([Cell(("a", "b"), 0.0, 0.1, 1)], "one block"),
        ([Cell(("a", "b"), 0.0, 0.0, 3)], "positive"),
        ([Cell(("a", "b"), 0.0, 0.1, 3), Cell(("c", "d"), 0.0, 0.1, 3)], "together"),
    ],
)
def test_inputs_without_an_answer_are_refused(cells: list[Cell], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factor_effects(("x", "y"), cells)


def test_error_rates_where_nothing_differs() -> None:
    """Any of six terms matters in at most 5 % of the matrices, plus chance.

    Each interval holds the truth in 95 %, and the unexplained part seems significant in 5 %.
    """
    source = np.random.default_rng(7)
    runs, any_matters, covered, intervals, unexplained = 600, 0, 0, 0, 0
    for _ in range(runs):
        effects = factor_effects(FACTORS, matrix(source, nothing))
        any_matters += any(each.matters for each in effects.terms)
        for each in effects.terms:
            covered += sum(at.here.low <= 1 <= at.here.high for at in each.at)
            intervals += len(each.at)
        unexplained += known(effects.unexplained_p) <= 0.05
    chance = 2.33 * math.sqrt(0.05 * 0.95 / runs)
    assert any_matters / runs <= 0.05 + chance
    assert 0.94 <= covered / intervals <= 0.97
    assert unexplained / runs <= 0.05 + chance


def test_false_discoveries_beside_a_true_one() -> None:
    """Of the terms reported besides the true one, at most 5 % are false, plus chance."""
    source = np.random.default_rng(8)
    runs, true, share = 300, 0, 0.0
    for _ in range(runs):
        effects = factor_effects(FACTORS, matrix(source, with_the_binlog))
        found = [each.factors for each in effects.terms if each.matters]
        true += ("binlog",) in found
        share += sum(each != ("binlog",) for each in found) / max(len(found), 1)
    assert true / runs >= 0.99
    assert share / runs <= 0.05 + 2.33 * math.sqrt(0.05 / runs)


def test_more_than_pairs_explain_is_seen() -> None:
    source = np.random.default_rng(9)

    def one_cell(workload: str, clients: str, binlog: str) -> float:
        return 0.3 * ((workload, clients, binlog) == ("reads", "8", "on"))

    effects = factor_effects(FACTORS, matrix(source, one_cell))
    assert known(effects.unexplained_p) < 0.01


def test_cells_that_are_the_same_but_for_rounding_differ_in_nothing() -> None:
    ratios = (0.8877543986643780, 0.8877543986643773, 0.8877543986643777)
    cells = [Cell((str(n),), math.log(ratio), 0.005, 5) for n, ratio in enumerate(ratios)]
    (term,) = factor_effects(("comparison",), cells).terms
    assert 0.99 < term.p_value <= 1
    assert not term.matters
