"""Test which trials were steady, and why not, from stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.steady.steadiness import TrialSteadiness, by_treatment
from millrace.model.observations import Observations
from millrace.store.observations import in_neutral_terms
from millrace.store.records import StoredRun
from tests.unit.analysis.builders import study
from tests.unit.analysis.query_runs import QueryRun
from tests.unit.analysis.seconds import events
from tests.unit.analysis.steady.test_checks import BEGIN, END, STATE, VARIABLES

BASE = "mysql-5.6.24"
Values = Sequence[float]


def seconds(shape: Any, n_seconds: int = 30, *, seed: int = 3, sd: float = 0.01) -> list[float]:
    noise = sd * np.random.default_rng(seed).standard_normal(n_seconds)
    values: list[float] = (14_000 * (np.asarray(shape) + noise)).tolist()
    return values


def run(
    measured: Values,
    *,
    warmup: Values = (14_000.0,) * 5,
    facts: Mapping[str, Any] | None = None,
    p50_us: Values | None = None,
    maintenance_s: float | None = None,
    **changes: Any,
) -> StoredRun:
    return QueryRun(
        (BASE,), ("point-query",), (8,), 3,
        series=lambda _levels, _block: events(
            measured, warmup=warmup, p50_us=p50_us, maintenance_s=maintenance_s
        ),
        facts=lambda _levels: {"residency": "cached", **(facts or {})},
        variables=VARIABLES, **changes,
    ).build()  # fmt: skip


def first(stored: StoredRun, **judged: Any) -> TrialSteadiness:
    return compare_run(stored, **judged).treatments[0].steadiness[0]


def test_a_trial_that_stays_where_it_is_is_steady() -> None:
    found = first(run(seconds(1.0)))
    assert (found.state, found.trend.kind, found.enough_s) == ("steady", "steady", None)
    assert (found.seconds, found.warmup_s, found.measured_s) == (30, 5.0, 30.0)
    assert found.figure == "throughput"


def test_the_slowest_second_is_that_of_the_measured_part() -> None:
    stalled = first(run([*seconds(1.0), *seconds(0.2)], warmup=(5.0, 9_000.0)))
    assert stalled.slowest is not None
    assert 0.1 < stalled.slowest / max(*seconds(1.0)) < 0.25
    assert first(run(seconds(1.0), p50_us=[100.0] * 30, open_loop=True)).slowest is None


def test_only_the_seconds_before_maintenance_are_to_be_steady() -> None:
    disturbed = [*seconds(1.0), *seconds(0.2)]
    assert first(run(disturbed)).state == "unsteady"
    found = first(run(disturbed, maintenance_s=30.0))
    assert (found.state, found.seconds, found.measured_s) == ("steady", 30, 30.0)


def test_a_warm_up_within_its_own_part_is_told_and_no_harm() -> None:
    found = first(run(seconds(1.0), warmup=(3_000.0, 5_000.0, 8_000.0, 14_100.0, 13_900.0)))
    assert found.state == "steady"
    assert found.found_s is not None
    assert 1.0 <= found.found_s <= 5.0


def test_a_warm_up_that_reaches_into_the_measured_part_tells_how_long_was_enough() -> None:
    cold = 1 - 0.4 * (np.arange(30) < 8)
    found = first(run(seconds(cold), warmup=(8_000.0,) * 5))
    assert (found.state, found.trend.kind) == ("unsteady", "warm-up")
    assert found.found_s == pytest.approx(13.0, abs=2.0)
    assert found.enough_s == found.found_s


def test_a_trial_that_moves_on_the_whole_is_not_steady() -> None:
    found = first(run(seconds(1 - 0.2 * np.arange(30) / 30)))
    assert (found.state, found.trend.kind) == ("unsteady", "drift")
    assert found.enough_s == pytest.approx(35.0)


def test_the_margin_is_the_judgements() -> None:
    stored = run(seconds(1 - 0.06 * np.arange(30) / 30, sd=0.002))
    assert first(stored).state == "unsteady"
    assert first(stored, margin=0.1).state == "steady"


def test_trials_that_drift_alike_are_unsteady_though_each_might_by_chance() -> None:
    """Seconds that scatter by 4 % hide a fall by 10 % in each trial."""
    noise = np.random.default_rng(6)

    def falling(size: float) -> StoredRun:
        def series(_levels: Any, _block: int) -> Any:
            shape = 1 - size * np.arange(30) / 30 + 0.04 * noise.standard_normal(30)
            return events(list(14_000 * shape), warmup=(14_000.0,) * 5)

        return QueryRun((BASE,), ("point-query",), (8,), 6, series=series).build()

    together = compare_run(falling(0.1)).treatments[0].steadiness
    assert sum(trial.state == "unsteady" for trial in together) > 3
    alone = [first(replace(run_, trials=run_.trials[:1])) for run_ in [falling(0.1)] * 6]
    assert sum(trial.state == "unsteady" for trial in alone) < 3
    flat = compare_run(falling(0.0)).treatments[0].steadiness
    assert {trial.state for trial in flat} == {"steady"}


@pytest.mark.parametrize("n_seconds", [1, 3, 7])
def test_a_short_trial_is_too_short_to_tell_whatever_its_gates_say(n_seconds: int) -> None:
    state = {**STATE, "end": {**END, "dirty_pages": 7_900}}
    found = first(run(seconds(1.0, n_seconds), facts={"state": state}))
    assert found.state == "too short to tell"
    assert [gate.name for gate in found.failed] == ["dirty pages"]
    assert not found.is_judged


def test_seconds_without_a_transaction_are_no_change_of_speed() -> None:
    # Three transactions of 20 s.
    slow = [float(second % 20 == 19) for second in range(60)]
    found = first(run(slow, also=lambda _levels, _block: {"transactions": 3.0}))
    assert found.state == "too short to tell"


def test_a_gate_that_fails_makes_a_trial_unsteady() -> None:
    state = {**STATE, "end": {**END, "dirty_pages": 7_900}}
    found = first(run(seconds(1.0), facts={"state": state}))
    assert (found.state, found.trend.kind) == ("unsteady", "steady")
    assert found.enough_s == pytest.approx(35.0)


def test_a_server_that_does_not_tell_is_judged_by_its_seconds() -> None:
    found = first(run(seconds(1.0)))
    assert {gate.result for gate in found.checks} == {"unknown"}
    assert found.state == "steady"


def test_in_an_open_loop_the_response_time_is_looked_at() -> None:
    """Throughput is set by the schedule."""
    rising = list(100 * (1 + 0.5 * np.arange(30) / 30))
    found = first(run([5_000.0] * 30, p50_us=rising, open_loop=True))
    assert found.figure == "the median response time"
    assert (found.state, found.trend.kind) == ("unsteady", "drift")
    assert found.trend.change == pytest.approx(0.5, abs=0.05)


def test_equal_work_and_loads_have_no_steady_state() -> None:
    falling = seconds(1 - 0.5 * np.arange(30) / 30)
    by_work = first(run(falling, parameters={"operations": 100_000}))
    assert (by_work.state, by_work.is_judged) == ("does not apply", False)
    load = compare_run(study()).treatments[0].steadiness[0]
    assert (load.state, load.figure) == ("does not apply", "none")


def test_a_test_that_ends_by_its_own_number_has_no_steady_state() -> None:
    stored = run([*seconds(1.0), *seconds(0.2)])
    workload = stored.run.spec.workload.to_json()
    workload["tests"] = {"point-query": {"values": {"operations": "{rows} / 100"}}}
    spec = stored.run.spec.replace(workload=workload)
    by_test = replace(stored, run=replace(stored.run, spec=spec))
    assert first(stored).state == "unsteady"
    assert first(by_test).state == "does not apply"
    (of_treatment,) = by_treatment(by_test).values()
    assert {each.state for each in of_treatment} == {"does not apply"}


def test_an_older_run_without_series_is_not_judged() -> None:
    stored = run(seconds(1.0))
    attempts = tuple(replace(attempt, series=()) for attempt in stored.attempts)
    assert first(replace(stored, attempts=attempts)).state == "not recorded"


def with_plans(stored: StoredRun, keys: Sequence[str | None]) -> StoredRun:
    """Return attempts whose only statement reads its table by these indexes.

    None: not explained."""
    attempts = []
    for attempt, key in zip(stored.attempts, keys, strict=True):
        row = {"select_type": "SIMPLE", "table": "sbtest1", "type": "ref", "key": key, "Extra": ""}
        plans = {"point-query": {"sql": "SELECT 1", "rows": [row] if key else [], "error": None}}
        observations = in_neutral_terms(Observations.model_validate({"plans": plans}), "mysql")
        attempts.append(replace(attempt, observations=observations))
    return replace(stored, attempts=tuple(attempts))


def test_a_plan_of_its_own_makes_a_trial_unsteady() -> None:
    stored = with_plans(run(seconds(1.0)), ("PRIMARY", "k_1", "PRIMARY"))
    states = {t.block: t.state for t in compare_run(stored).treatments[0].steadiness}
    assert sorted(states.values()) == ["steady", "steady", "unsteady"]
    (odd,) = [t for t in compare_run(stored).treatments[0].steadiness if t.failed]
    assert "point-query" in odd.failed[0].figures


def test_plans_that_nobody_saw_are_unknown() -> None:
    stored = with_plans(run(seconds(1.0)), (None, None, "PRIMARY"))
    gates = [t.checks[-1].result for t in compare_run(stored).treatments[0].steadiness]
    assert sorted(gates) == ["passed", "unknown", "unknown"]


def test_the_state_is_read_from_the_instances_facts() -> None:
    found = first(run(seconds(1.0), facts={"state": STATE}))
    assert {gate.result for gate in found.checks[:-1]} == {"passed"}
    filling = {**STATE, "begin": {**BEGIN, "pool_free_pages": 5_000, "pages_fetched": 0},
               "end": {**END, "pool_free_pages": 100, "pages_fetched": 4_900}}  # fmt: skip
    assert [g.name for g in first(run(seconds(1.0), facts={"state": filling})).failed] == [
        "buffer pool"
    ]


def host_time(**changed: float | None) -> dict[str, Any]:
    """Return the host's facts of a trial, usual except for ``changed``."""
    usual = {"measured_s": 30.0, "suspended_s": 0.0, "clock_step_s": 0.0, "steal_share": 0.01}
    return {"host_time": {**usual, **changed}}


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({}, ()),
        ({"suspended_s": 2.0}, ("suspension",)),
        ({"clock_step_s": 3.0}, ("suspension",)),
        ({"clock_step_s": -3.0}, ()),
        ({"steal_share": 0.2}, ("steal time",)),
        ({"steal_share": None}, ()),
    ],
)
def test_a_host_that_stood_still_makes_a_trial_unsteady(
    changed: dict[str, Any], failed: tuple[str, ...]
) -> None:
    for stored in (
        run(seconds(1.0), facts=host_time(**changed)),
        run(seconds(1.0, 4), facts=host_time(**changed)),
        run(seconds(1.0), facts=host_time(**changed), parameters={"operations": 50_000}),
    ):
        found = first(stored)
        assert tuple(gate.name for gate in found.failed) == failed
        assert (found.state == "unsteady") == bool(failed)


def test_steal_of_a_short_part_tells_nothing() -> None:
    facts = host_time(steal_share=0.5, measured_s=4.0)
    assert first(run(seconds(1.0, 4), facts=facts)).state == "too short to tell"


def test_trials_of_an_older_millrace_have_no_gates_of_the_host() -> None:
    names = {gate.name for gate in first(run(seconds(1.0))).checks}
    assert not names & {"suspension", "steal time"}


def test_a_comparison_of_suspended_trials_is_refused_with_what_to_do() -> None:
    stored = QueryRun(
        (BASE, "mysql-8.0.12"), ("point-query",), (8,), 5,
        facts=lambda levels: host_time(suspended_s=0.0 if levels["server"] == BASE else 2.0),
    ).build()  # fmt: skip
    (comparison,) = compare_run(stored).comparisons()
    assert comparison.verdict == "inconclusive"
    assert comparison.reason == (
        "not steady: 5 of 5 trials of mysql-8.0.12 (the machine was suspended, or its clock was "
        "set forward); measure again while nothing suspends, moves or backs up this machine, nor "
        "sets its clock"
    )
