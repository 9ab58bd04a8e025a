"""Test which trials were steady, and why not, from stored runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.steady import steadiness
from millrace.model.instance_facts import ServerStateFact
from millrace.model.observations import Observations
from millrace.model.steady_limits import SteadyLimits
from millrace.store.observations import in_neutral_terms
from millrace.store.records import StoredRun
from tests.support.builders import study
from tests.support.known import known
from tests.support.query_runs import QueryRun
from tests.support.seconds import events

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


def first(stored: StoredRun, **judged: Any) -> steadiness.TrialSteadiness:
    return compare_run(stored, **judged).treatments[0].steadiness[0]


def test_a_trial_that_stays_where_it_is_is_steady() -> None:
    found = first(run(seconds(1.0)))
    assert (found.state, found.trend.kind, found.enough_s) == ("steady", "steady", None)
    assert (found.seconds, found.warmup_s, found.measured_s) == (30, 5.0, 30.0)
    assert found.figure == "throughput"


def test_the_slowest_second_is_that_of_the_measured_part() -> None:
    stalled = first(run([*seconds(1.0), *seconds(0.2)], warmup=(5.0, 9_000.0)))
    assert 0.1 < known(stalled.slowest) / max(*seconds(1.0)) < 0.25
    assert first(run(seconds(1.0), p50_us=[100.0] * 30, open_loop=True)).slowest is None


def test_only_the_seconds_before_maintenance_are_to_be_steady() -> None:
    disturbed = [*seconds(1.0), *seconds(0.2)]
    assert first(run(disturbed)).state == "unsteady"
    found = first(run(disturbed, maintenance_s=30.0))
    assert (found.state, found.seconds, found.measured_s) == ("steady", 30, 30.0)


def test_warm_up_is_reported_when_it_ends_in_its_own_part() -> None:
    found = first(run(seconds(1.0), warmup=(3_000.0, 5_000.0, 8_000.0, 14_100.0, 13_900.0)))
    assert found.state == "steady"
    assert 1.0 <= known(found.found_s) <= 5.0


def test_enough_warm_up_is_known_when_it_reaches_the_measured_part() -> None:
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
    (of_treatment,) = steadiness.by_treatment(by_test).values()
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


def test_steal_is_unknown_when_the_part_is_short() -> None:
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


POOL = {"pool_pages": 8_000, "pool_data_pages": 6_000, "pool_free_pages": 2_000}
BEGIN = {
    **POOL, "pages_asked_for": 1_000, "pages_fetched": 500, "dirty_pages": 400, "history": 100,
    "log_position": 1_000_000, "checkpoint": 900_000,
}  # fmt: skip
END = {**BEGIN, "pages_asked_for": 5_000_000, "log_position": 1_200_000, "checkpoint": 1_100_000}
STATE = {
    "begin": BEGIN, "end": END, "log_capacity_bytes": 2_000_000, "since_begin_s": 30.5,
    "statistics": {"sbtest1": {"age_s": 400.0, "rows": 100_000}},
}  # fmt: skip
VARIABLES = {"innodb_max_dirty_pages_pct": "90.000000"}
FIGURES = tuple(BEGIN)
STORAGE = databases.get("mysql").storage


def gate(
    name: str,
    *,
    begin: Mapping[str, Any] | None = None,
    end: Mapping[str, Any] | None = None,
    transactions: float = 100_000,
    rows_changed: float = 0,
    variables: Mapping[str, str] = VARIABLES,
    **state: Any,
) -> steadiness.SteadyCheck:
    """Return the check of that name, on a trial that is usual except for these values."""
    changed = {
        **STATE, "begin": {**BEGIN, **(begin or {})}, "end": {**END, **(end or {})}, **state
    }  # fmt: skip
    found = steadiness.steady_checks(
        ServerStateFact.model_validate(changed),
        STORAGE.limits(variables),
        transactions=transactions,
        rows_changed=rows_changed,
    )
    return next(each for each in found if each.name == name)


def test_a_server_at_rest_passes_every_gate() -> None:
    found = steadiness.steady_checks(
        ServerStateFact.model_validate(STATE),
        STORAGE.limits(VARIABLES),
        transactions=100_000,
        rows_changed=0,
    )
    assert [each.name for each in found] == [
        "buffer pool", "dirty pages", "checkpoint age", "purge lag", "statistics",
    ]  # fmt: skip
    assert {each.result for each in found} == {"passed"}
    assert all(each.figures for each in found)


@pytest.mark.parametrize("state", [{}, {"begin": None}, {"begin": {}, "end": {}}])
def test_check_is_unknown_when_no_server_reported_figures(state: Mapping[str, Any]) -> None:
    found = steadiness.steady_checks(
        ServerStateFact.model_validate(state), SteadyLimits(), transactions=1, rows_changed=0
    )
    assert {each.result for each in found} == {"unknown"}


@given(st.sets(st.sampled_from(FIGURES)), st.booleans(), st.booleans())
def test_no_gate_fails_when_a_version_has_no_figures(
    lacking: set[str], tells_capacity: bool, tells_statistics: bool
) -> None:
    state = {
        key: {name: value for name, value in figures.items() if name not in lacking}
        for key, figures in (("begin", BEGIN), ("end", END))
    }
    more = {
        **({"log_capacity_bytes": 2_000_000} if tells_capacity else {}),
        **({"statistics": STATE["statistics"], "since_begin_s": 30} if tells_statistics else {}),
    }
    found = steadiness.steady_checks(
        ServerStateFact.model_validate({**state, **more}),
        SteadyLimits(),
        transactions=100_000,
        rows_changed=0,
    )
    assert "failed" not in {each.result for each in found}
    by_name = {each.name: each.result for each in found}
    assert (by_name["purge lag"] == "unknown") == ("history" in lacking)
    assert (by_name["statistics"] == "unknown") == (not tells_statistics)


@pytest.mark.parametrize(
    ("begin", "end", "result"),
    [
        (0, 4_000, "failed"),  # 0 to 50 %: the same growth again exceeds 90 %
        (0, 2_000, "passed"),  # 0 to 25 %
        (4_000, 6_000, "failed"),  # 50 to 75 %
        (7_000, 7_200, "passed"),  # at the limit, and no longer growing
        (6_000, 3_000, "passed"),
    ],
)
def test_dirty_pages_fail_where_they_head_for_their_limit(
    begin: int, end: int, result: str
) -> None:
    found = gate("dirty pages", begin={"dirty_pages": begin}, end={"dirty_pages": end})
    assert found.result == result


def test_the_limit_of_dirty_pages_is_the_servers_own() -> None:
    low = {"innodb_max_dirty_pages_pct": "50"}
    begin, end = {"dirty_pages": 0}, {"dirty_pages": 2_000}
    found = gate("dirty pages", variables=low, begin=begin, end=end)
    assert found.result == "failed"
    assert "50 %" in found.figures
    assert gate("dirty pages", begin=begin, end=end).result == "passed"


@pytest.mark.parametrize(
    ("written", "age", "result"),
    [
        (900_000, 900_000, "failed"),  # from 5 to 45 % of 2 MB
        (300_000, 400_000, "passed"),
        (5_000_000, 1_400_000, "passed"),  # it has wrapped around
        (1_000_000, 100_000, "passed"),
    ],
)
def test_the_checkpoints_age_fails_where_it_heads_for_the_logs_end(
    written: int, age: int, result: str
) -> None:
    position = 1_000_000 + written
    found = gate("checkpoint age", end={"log_position": position, "checkpoint": position - age})
    assert found.result == result


def test_the_size_of_the_log_is_what_the_server_has_now_or_what_its_files_take() -> None:
    files = {"innodb_log_file_size": "50331648", "innodb_log_files_in_group": "2"}
    own = gate("checkpoint age", variables=files)
    assert "5 % of the redo log was in use at the begin" in own.figures
    by_files = gate("checkpoint age", variables=files, log_capacity_bytes=None)
    assert "0 % of the redo log was in use at the begin" in by_files.figures
    assert gate("checkpoint age", log_capacity_bytes=None).result == "unknown"


@pytest.mark.parametrize(
    ("grown", "transactions", "result"),
    [(60_000, 100_000, "failed"), (30_000, 100_000, "passed"), (60_000, 3_000_000, "passed")],
)
def test_purge_fails_where_it_lags_by_more_than_its_own_cycle(
    grown: int, transactions: float, result: str
) -> None:
    found = gate("purge lag", end={"history": 100 + grown}, transactions=transactions)
    assert found.result == result


@pytest.mark.parametrize(
    ("free", "fetched", "asked", "result"),
    [
        (1_000, 1_500, 5_000_000, "failed"),
        (2_000, 1_500, 5_000_000, "passed"),  # evicts old pages: steadily bound by I/O
        (1_000, 500, 5_000_000, "passed"),  # new pages of a table that grows
        (1_000, 1_500, 500_000_000, "passed"),  # too few to matter
    ],
)
def test_a_buffer_pool_fails_while_it_fills(
    free: int, fetched: int, asked: int, result: str
) -> None:
    end = {"pool_free_pages": free, "pages_fetched": fetched, "pages_asked_for": asked}
    assert gate("buffer pool", end=end).result == result


@pytest.mark.parametrize(
    ("age_s", "rows_changed", "result"),
    [
        (12.0, 0, "failed"),
        (12.0, 50_000, "passed"),  # caused by the load itself
        (29.9, 0, "passed"),  # as old as the measured part, to a second
        (40.0, 0, "passed"),
    ],
)
def test_statistics_are_not_calculated_anew_but_for_changes(
    age_s: float, rows_changed: float, result: str
) -> None:
    found = gate(
        "statistics",
        rows_changed=rows_changed,
        statistics={"sbtest1": {"age_s": age_s, "rows": 100_000}},
    )
    assert found.result == result
    assert ("sbtest1" in found.figures) == (result == "failed")
