"""Test that stalls, which the trimmed mean of slices leaves out, are not left out of the answer."""

import random
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.model.measurements import WITH_STALLS, WITHOUT_STALLS
from millrace.model.run_spec import RunSpec
from millrace.report.run.doubts import doubts
from tests.support.query_runs import TIME_S, WORKLOAD, Levels, QueryRun, Values

BASE, OTHER = "mysql-5.6.24", "mysql-5.7.22"


def in_slices(
    stalled: float, *, rounds: bool = True, counted: bool = False, slower: float = 0.0
) -> RunAnalysis:
    """Return a run whose candidate stalls for a share of the time, and the base for a hundredth.

    Without stalls the candidate is ``slower`` by that share of its time.
    """

    def also(levels: Levels, block: int) -> Values:
        share = stalled if levels["server"] == OTHER else 0.01
        share *= random.Random(f"{levels['server']} {block}").uniform(0.9, 1.1)
        work = 1 + slower if levels["server"] == OTHER else 1.0
        found = {"measure_trimmed_s": TIME_S * work * (1 - share)}
        found["measure_duration_s"] = TIME_S * work
        return {**found, "slices": 1_000.0} if rounds else found

    stored = QueryRun(
        servers=(BASE, OTHER), tests=("point-query",), clients=(1,), blocks=4, also=also
    ).build()
    metrics = dict(WORKLOAD["metrics"])
    plain, trimmed = metrics["throughput"], {"denominator": ["measure_trimmed_s"]}
    if counted:
        metrics[WITHOUT_STALLS] = {**plain, **trimmed, "primary": False}
    else:
        metrics[WITH_STALLS] = {**plain, "primary": False}
        metrics["throughput"] = {**plain, **trimmed}
    spec = stored.run.spec.to_json() | {"workload": {**WORKLOAD, "metrics": metrics}}
    run = replace(stored.run, spec=RunSpec.model_validate(spec))
    return compare_run(replace(stored, run=run))


def test_a_side_that_stalls_more_is_named_with_what_that_makes() -> None:
    analysis = in_slices(0.08)
    (found,) = analysis.stalls
    assert OTHER in found.candidate
    assert found.effect.mean == pytest.approx(-0.073, abs=0.01)
    (doubt,) = doubts(analysis)
    assert "make its throughput 6." in doubt
    assert "lower" in doubt


@pytest.mark.parametrize("stalled", [0.01, 0.02])
def test_stalls_within_the_margin_are_none(stalled: float) -> None:
    assert in_slices(stalled).stalls == ()


def test_a_side_may_stall_less_too() -> None:
    (found,) = in_slices(-0.08).stalls
    assert found.effect.mean > 0


def test_interleaved_trials_leave_no_stalls_out() -> None:
    assert in_slices(0.08, rounds=False).stalls == ()


def test_stalls_of_loads_are_reported_when_they_make_half_of_a_difference() -> None:
    assert in_slices(0.08, counted=True, slower=0.3).stalls == ()
    analysis = in_slices(0.3, counted=True)
    (found,) = analysis.stalls
    assert found.counted
    assert "at least half as much" in "".join(doubts(analysis))
