"""Test which comparisons of a run share what they tell about noise, and how reports say so."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic import ValidationError

from millrace.analysis.compare.comparability import Comparability
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.estimates import (
    Pair,
    by_group,
    estimate_ratios,
    noise_of_groups,
    paired_values,
)
from millrace.analysis.compare.model import RunAnalysis
from millrace.model.run_spec import EarlierNoise
from millrace.report.run.design import design_text, method
from millrace.report.run.formats import render
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from tests.support.builders import Fails, RunBuilder, noisy
from tests.support.known import known
from tests.support.query_runs import QueryRun

BASE, *OTHERS = (f"mysql-5.{minor}.1" for minor in range(6))
FAIR = Comparability("", "", None)
PHRASE = "intervals from all comparisons of the run"


def run(candidates: int, blocks: int = 3, *, looks: Looks = "once") -> RunAnalysis:
    times = {
        name: noisy(4.0, blocks, seed=seed)
        for seed, name in enumerate([BASE, *OTHERS[:candidates]])
    }
    return compare_run(RunBuilder(times, base=BASE, published=None).build(), looks=looks)


def own(analysis: RunAnalysis, looks: Looks = "once") -> list[RatioEstimate]:
    base, *others = analysis.treatments
    return [
        paired_ratio(*paired_values(base, other, analysis.headline), looks=looks)
        for other in others
    ]


def estimates(analysis: RunAnalysis) -> list[RatioEstimate]:
    return [each.estimate for each in analysis.comparisons() if each.estimate is not None]


def pairs(analysis: RunAnalysis, refused: Sequence[int] = ()) -> list[Pair]:
    base, *others = analysis.treatments
    why = Comparability("unequal work", "", None)
    return [
        Pair(base, other, (base.label, other.label), why if place in refused else FAIR)
        for place, other in enumerate(others)
    ]


def test_five_comparisons_of_a_run_share_their_noise() -> None:
    analysis = run(5)
    for found, alone in zip(estimates(analysis), own(analysis), strict=True):
        assert found.ratio == alone.ratio
        assert found.borrowed > 0
    text = "3 blocks, intervals from all comparisons of the run"
    assert design_text(analysis) == text
    assert "its interval is from all comparisons of the run: Student’s t" in " ".join(
        method(analysis)
    )
    assert json.loads(render(analysis, "json"))["design"]["intervals_from"] == "all_comparisons"


def test_in_each_metric() -> None:
    servers = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33")
    analysis = compare_run(QueryRun(servers, ("reads", "writes"), (1, 8), 3).build())
    for metric in analysis.metrics:
        found = [each.estimate for each in analysis.comparisons(metric)]
        assert any(each is not None and each.borrowed > 0 for each in found), metric.name


@pytest.mark.parametrize("candidates", [1, 2])
def test_one_or_two_have_their_own_intervals(candidates: int) -> None:
    analysis = run(candidates)
    assert estimates(analysis) == own(analysis)
    assert design_text(analysis) == "3 blocks"
    assert PHRASE not in " ".join(method(analysis))
    assert json.loads(render(analysis, "json"))["design"]["intervals_from"] == "own_blocks"


def earlier(run_id: str, **changed: object) -> EarlierNoise:
    """Return the noise of an earlier run's only group."""
    known = {"configuration": "default", "engine": "InnoDB", "load_mode": "local"}
    noise = EarlierNoise(
        run=run_id, metric="throughput", fixed_factors=known, in_slices=False,
        log_sd=0.014, degrees_of_freedom=10,
    )  # fmt: skip
    return noise.replace(**changed)


def test_earlier_runs_lend_to_a_single_comparison_and_reports_say_so() -> None:
    stored = RunBuilder(
        {BASE: noisy(4.0, 3), OTHERS[0]: noisy(4.0, 3, seed=2)}, base=BASE, published=None
    ).build()
    alone = compare_run(stored)

    def with_noise(*noise: EarlierNoise) -> RunAnalysis:
        spec = stored.run.spec.replace(earlier_noise=noise)
        return compare_run(replace(stored, run=replace(stored.run, spec=spec)))

    lent = with_noise(earlier("a"), earlier("b"), earlier("c"))
    (found,), (own_one,) = estimates(lent), estimates(alone)
    assert found.ratio == own_one.ratio
    assert found.borrowed > 0.5
    assert design_text(lent) == "3 blocks, intervals from the noise of 3 earlier runs"
    assert "from the noise of 3 earlier runs: Student’s t" in " ".join(method(lent))
    design = json.loads(render(lent, "json"))["design"]
    assert (design["intervals_from"], design["earlier_runs"]) == ("earlier_runs", 3)
    others: tuple[dict[str, object], ...] = (
        {"metric": "size"}, {"in_slices": True}, {"fixed_factors": {"engine": "MyISAM"}},
    )  # fmt: skip
    for other in others:
        unlike = with_noise(earlier("a", **other))
        assert estimates(unlike) == estimates(alone)
        assert unlike.earlier_runs == 0


def test_all_comparisons_and_earlier_runs_are_named_together() -> None:
    times = {name: noisy(4.0, 3, seed=at) for at, name in enumerate([BASE, *OTHERS])}
    stored = RunBuilder(times, base=BASE, published=None).build()
    spec = stored.run.spec.replace(earlier_noise=[earlier("a")])
    analysis = compare_run(replace(stored, run=replace(stored.run, spec=spec)))
    text = "3 blocks, intervals from all comparisons of the run and the noise of 1 earlier run"
    assert design_text(analysis) == text


def test_two_fair_comparisons_of_three_do_not_share() -> None:
    analysis = run(3, blocks=4)
    noise = by_group([earlier("a", degrees_of_freedom=5)])
    found = estimate_ratios(pairs(analysis, refused=(0,)), analysis.headline, "once", noise)
    assert found[0] == own(analysis)[0]
    assert [(each.shares, each.earlier_runs) for each in found[1:] if each] == [(False, 1)] * 2


def test_noise_of_groups_is_known_after_a_run() -> None:
    analysis = run(5, blocks=4)
    found = list(noise_of_groups(analysis))
    assert [each.metric for each in found] == [each.name for each in analysis.metrics]
    first = found[0]
    assert (first.run, first.in_slices, first.degrees_of_freedom) == (analysis.run.id, False, 15)
    assert first.fixed_factors == analysis.groups[0].fixed_factors
    assert 0.008 < first.log_sd < 0.022  # of log-ratios of two with 0.01


@pytest.mark.parametrize(
    "wrong", [{"log_sd": 0.0}, {"log_sd": 1e300}, {"log_sd": math.inf}, {"degrees_of_freedom": 0.5}]
)
def test_noise_without_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        EarlierNoise.model_validate({**earlier("a").to_json(), **wrong})


def test_intervals_for_any_number_of_looks_share_it_too() -> None:
    analysis = run(5, looks="any")
    for found, alone in zip(estimates(analysis), own(analysis, "any"), strict=True):
        assert found.looks == "any"
        assert found.borrowed > 0
        assert known(found.high) < known(alone.high)
    assert "its interval is from all comparisons of the run: a confidence sequence" in " ".join(
        method(analysis)
    )


def test_a_comparison_with_a_reason_against_it_neither_lends_nor_borrows() -> None:
    analysis = run(5, blocks=4)
    metric = analysis.headline
    refused = estimate_ratios(pairs(analysis, refused=(0,)), metric, "once")
    assert refused[0] == own(analysis)[0]
    assert refused[1:] == estimate_ratios(pairs(analysis)[1:], metric, "once")


def test_slices_and_whole_trials_share_among_themselves() -> None:
    analysis = run(5, blocks=4)
    every = pairs(analysis)
    sliced = [
        replace(each, base=replace(each.base, id="sliced", in_slices=True)) for each in every[:2]
    ]
    both = estimate_ratios([*sliced, *every[2:]], analysis.headline, "once")
    assert both[:2] == tuple(own(analysis)[:2])
    assert both[2:] == estimate_ratios(every[2:], analysis.headline, "once")
    assert all(each is not None and each.borrowed > 0 for each in both[2:])


def test_the_smallest_visible_difference_is_by_the_shared_noise() -> None:
    analysis = run(5)
    for found in analysis.comparisons():
        half_width = known(found.estimate).ratio / known(known(found.estimate).low) - 1
        assert half_width < known(found.minimum_detectable) < 2.2 * half_width


def test_a_candidate_that_always_failed_takes_nothing_from_the_others() -> None:
    times: dict[str, Sequence[float | Fails]] = {
        name: noisy(4.0, 3, seed=seed) for seed, name in enumerate([BASE, *OTHERS[:4]])
    }
    without = compare_run(RunBuilder(times, base=BASE, published=None).build())
    times[OTHERS[4]] = [Fails()] * 3
    beside = compare_run(RunBuilder(times, base=BASE, published=None).build())
    for found, before in zip(estimates(beside), estimates(without), strict=True):
        assert found.log_sd == pytest.approx(before.log_sd)
        assert found.borrowed == pytest.approx(before.borrowed)
