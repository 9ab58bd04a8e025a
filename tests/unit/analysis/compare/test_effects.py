"""Test the factors on which differences depend: reported terms, omitted ones, error rates."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.effects import dependences
from millrace.analysis.compare.model import Dependence, Term
from millrace.stats.effects import cell_of, factor_effects
from millrace.stats.ratio import Looks, RatioEstimate
from millrace.stats.sequential import FIRST_LOOK, sides
from tests.support.builders import Fails
from tests.support.crossed_runs import BASE, BINLOG, CANDIDATE, analysed
from tests.support.query_runs import Levels, QueryRun


def found(ratio: Callable[[Levels], float], **also: Any) -> Dependence:
    (dependence,) = dependences(analysed(ratio, **also))
    return dependence


def term(dependence: Dependence, *factors: str) -> Term:
    (one,) = [each for each in dependence.terms if each.factors == factors]
    return one


def verdicts(one: Term) -> dict[Any, str]:
    return {tuple(at.levels.values()): at.verdict for at in one.at}


def test_slower_only_with_a_setting() -> None:
    dependence = found(lambda levels: 0.94 if levels[BINLOG] == 1 else 1.0)
    assert [each.factors for each in dependence.terms if each.matters] == [(BINLOG,)]
    assert verdicts(term(dependence, BINLOG)) == {(0,): "equivalent", (1,): "regression"}
    assert not dependence.uniform
    assert dependence.everywhere is None


def test_slower_only_in_one_corner() -> None:
    def ratio(levels: Levels) -> float:
        return 0.8 if (levels["test"], levels["clients"]) == ("writes", 1) else 1.0

    pair = term(found(ratio), "test", "clients")
    assert pair.matters
    result = verdicts(pair)
    assert result.pop(("writes", 1)) == "regression"
    assert set(result.values()) == {"equivalent"}


def test_the_same_everywhere() -> None:
    dependence = found(lambda _levels: 0.88)
    assert dependence.uniform
    assert (dependence.verdict, dependence.everywhere) == ("regression", "regression")
    assert not any(each.matters for each in dependence.terms)
    assert dependence.overall.low < 0.88 < dependence.overall.high


def test_small_dependences_are_real_and_do_not_matter() -> None:
    dependence = found(lambda levels: 0.99 if levels[BINLOG] == 1 else 1.0, noise=0.0005)
    binlog = term(dependence, BINLOG)
    assert binlog.adjusted_p < 0.05
    assert not binlog.matters
    assert dependence.uniform


def test_noise_shows_nothing_and_excludes_nothing() -> None:
    dependence = found(lambda _levels: 0.9, noise=0.05, blocks=3)
    assert not any(each.matters for each in dependence.terms)
    assert not dependence.uniform
    assert dependence.apart_at_most > 0.05


def test_comparisons_without_a_result_are_left_out() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        is_one = (levels["server"], levels["test"]) == (CANDIDATE, "reads")
        return Fails() if is_one and levels["clients"] == 8 and levels[BINLOG] == 0 else None

    dependence = found(lambda levels: 0.94 if levels[BINLOG] == 1 else 1.0, fails=fails)
    assert (dependence.missing, dependence.planned) == (1, 8)
    assert verdicts(term(dependence, BINLOG)) == {(0,): "equivalent", (1,): "regression"}


def test_factors_are_not_terms_when_they_cannot_be_separated() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        together = (levels["test"] == "reads") == (levels["clients"] == 1)
        return None if together else Fails()

    dependence = found(lambda _levels: 0.9, fails=fails, factors={})
    assert dependence.terms == ()
    assert dependence.verdict == "regression"
    assert (dependence.missing, dependence.planned) == (2, 4)


def test_comparison_is_left_out_when_work_is_unequal() -> None:
    def also(levels: Levels, block: int) -> Mapping[str, float]:
        is_one = levels["server"] == CANDIDATE and levels["clients"] == 8
        return {"errors": 9_000.0 + block} if is_one else {}

    dependence = found(lambda _levels: 1.0, also=also)
    assert (dependence.missing, dependence.planned) == (4, 8)


@pytest.mark.parametrize(
    "also", [{"blocks": 2}, {"tests": ("reads",), "clients": (1,), "factors": {}}]
)
def test_dependence_is_none_without_blocks_or_levels(also: Mapping[str, Any]) -> None:
    run = QueryRun(**{"servers": (BASE, CANDIDATE), **also})
    assert dependences(compare_run(run.build())) == ()


def test_candidates_share_alpha() -> None:
    servers = (BASE, CANDIDATE, "mysql-8.0.12", "mysql-9.7.4")
    of_each = dependences(compare_run(QueryRun(servers, ("reads", "writes"), (1, 8), 6).build()))
    assert [each.candidate for each in of_each] == list(servers[1:])
    assert [each.confidence for each in of_each] == pytest.approx([1 - 0.05 / 3] * 3)


def stopped(logs: NDArray[np.float64], looks: Looks) -> RatioEstimate:
    """Return the comparison stopped at the first look with a difference, or at the last."""
    seen = np.flatnonzero(sides(logs, 0.05)[FIRST_LOOK - 1 :])
    n_blocks = int(seen[0]) + FIRST_LOOK if len(seen) else len(logs)
    used = logs[:n_blocks]
    ratio, spread = float(np.exp(used.mean())), float(used.std(ddof=1))
    return RatioEstimate(ratio, None, None, n_blocks, 0.95, spread, looks)


def of_stopped(truth: float, looks: Looks) -> tuple[float, float]:
    """Count terms that matter and intervals that hold the ratio.

    The matrices have one ratio everywhere."""
    source = np.random.default_rng(13)
    runs, matters, covered = 150, 0, 0
    for _ in range(runs):
        cells = [
            cell_of(levels, stopped(truth + 0.02 * source.standard_normal(14), looks), alpha=0.05)
            for levels in itertools.product("abc", "xy")
        ]
        effects = factor_effects(("test", "clients"), cells)
        matters += any(each.matters for each in effects.terms)
        covered += effects.overall.low <= np.exp(truth) <= effects.overall.high
    return matters / runs, covered / runs


@pytest.mark.parametrize("truth", [0.0, 0.02])
def test_comparisons_that_were_stopped_early_do_not_seem_apart(truth: float) -> None:
    matters, covered = of_stopped(truth, "any")
    assert matters <= 0.05
    assert covered >= 0.95


def test_with_errors_for_one_look_they_would() -> None:
    matters, covered = of_stopped(0.02, "once")
    assert matters > 0.08
    assert covered < 0.92
