"""Test the way from a stored run to the difference between two treatments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.explain.explanation import Explanation, explain
from millrace.errors import UserError
from millrace.model.observations import Observations
from millrace.store.records import StoredRun
from tests.support.known import known
from tests.support.observed_trials import A, B, Scene, Truth, explained_run

FAST = Truth(waits={"log_flush": 20.0})
SLOW = replace(FAST, cpu_user=34.0, waits={"log_flush": 50.0})
EXACT = Scene(rate_hz=1e5)

STACKS = {"connection;mysqld`do_command;mysqld`MYSQLparse": 900,
          "connection;mysqld`do_command;mysqld`row_ins_step": 100}  # fmt: skip


def sections(server: str, block: int) -> Mapping[str, Any]:
    key = "PRIMARY" if server == A else None
    return {
        "waits": {"enabled": True, "why": None,
                  "events": [{"name": "wait/synch/mutex/x", "count": 5, "wait_s": 0.1}]},
        "digests": [{"text": "COMMIT", "count": 5, "wait_s": 0.1}],
        "stages": [{"name": "stage/sql/x", "count": 5, "wait_s": 0.1}],
        "plans": {"q": {"sql": "SELECT 1", "rows": [{"table": "t", "key": key}], "error": None}},
        "host": {"disturbed": ["another process took a core"] if block == 1 else []},
        "missing": [{"observer": "disk", "what": "no device", "hint": "use a disk"}],
        "profile": {"event": "cpu-clock", "frequency_hz": 999, "call_graph": "fp",
                    "samples": 1000, "lost": 0, "seconds": 1.0, "stacks": STACKS},
    }  # fmt: skip


def run(**changed: Any) -> StoredRun:
    return explained_run(
        lambda server, block: (
            (FAST if server == A else SLOW).times(1 + block / 10), sections(server, block)
        ),
        scene=EXACT,
        **{"blocks": 3, "profiled": 2, **changed},
    )  # fmt: skip


def one(stored: StoredRun, **how: Any) -> Explanation:
    (found,) = explain(stored, factor="server", base=A, candidate=B, **how)
    return found


def test_everything_that_was_seen_of_both() -> None:
    found = one(run())
    assert (found.base, found.candidate, found.noun, found.factor) == (
        A,
        B,
        "transaction",
        "server",
    )
    assert [line.key for line in known(found.differences).lines[:2]] == ["log_flush", "cpu_user"]
    assert known(found.differences).latency.mean == pytest.approx(44 * 1.1, rel=1e-3)
    assert len(known(found.a.breakdown).trials) == 3
    assert known(found.a.coverage).spinning_us == 0
    assert found.efficiency[0].key == "cpu_foreground"
    assert known(found.efficiency[0].difference).mean == pytest.approx(14 * 1.1)
    assert [row.name for row in found.waits] == ["wait/synch/mutex/x"]
    assert [row.name for row in found.stages] == ["stage/sql/x"]
    assert [row.text for row in found.digests] == ["COMMIT"]
    assert found.plans[0].same is False
    assert found.statements[0].name == "insert_next"
    assert known(found.profile).blocks == (0, 1)
    assert known(found.profile).groups[0].name == "parser"
    assert known(found.a.flat).lines[0].symbol == "MYSQLparse"
    assert found.a.instance is not None
    assert found.variables is not None
    assert found.likely_causes[0].kind == "plan"


def test_disturbances_and_missing_observations_are_by_side() -> None:
    found = one(run())
    assert {(d.side, d.block, d.profiled) for d in found.disturbances} == {
        (side, 1, profiled) for side in "AB" for profiled in (False, True)
    }
    assert [(lack.side, lack.observer, lack.trials) for lack in found.missing] == [
        ("A", "disk", 5), ("B", "disk", 5),
    ]  # fmt: skip


def test_profiled_trials_enter_no_account_and_no_verdict() -> None:
    """Profiled trials that took ten times as long change nothing.

    They only give shares of a time."""
    stored = run()
    ids = {trial.id for trial in stored.trials if trial.purpose == "profile"}
    slowed = [
        attempt
        if attempt.trial_id not in ids
        else replace(
            attempt,
            measurements=tuple(
                replace(m, value=m.value / 10) if m.name == "transactions" else m
                for m in attempt.measurements
            ),
        )
        for attempt in stored.attempts
    ]
    disturbed = replace(stored, attempts=tuple(slowed))
    assert one(disturbed).differences == one(stored).differences
    assert one(disturbed).efficiency == one(stored).efficiency
    assert one(disturbed).profile == one(stored).profile
    measured = replace(
        stored,
        trials=tuple(trial for trial in stored.trials if trial.id not in ids),
        attempts=tuple(each for each in stored.attempts if each.trial_id not in ids),
    )

    def verdicts(of: StoredRun) -> list[tuple[Any, ...]]:
        analysis = compare_run(of)
        throughput = next(each for each in analysis.metrics if each.name == "throughput")
        planned = [treatment.planned for treatment in analysis.treatments]
        found = analysis.comparisons(throughput)
        return [(c.verdict, c.estimate, c.n_blocks, *planned) for c in found]

    assert verdicts(disturbed) == verdicts(measured)


def test_each_group_is_explained_by_itself() -> None:
    stored = run(clients=(1, 4))
    found = explain(stored, factor="server", base=A, candidate=B)
    assert [each.group for each in found] == ["clients 1", "clients 4"]
    assert [each.fixed_factors["clients"] for each in found] == [1, 4]
    (chosen,) = explain(stored, factor="server", base=A, candidate=B, fixed_factors={"clients": 4})
    assert known(chosen.a.breakdown).clients == 4
    with pytest.raises(UserError, match="no treatment in common with clients 8"):
        explain(stored, factor="server", base=A, candidate=B, fixed_factors={"clients": 8})
    with pytest.raises(UserError, match="no other factor 'server'"):
        explain(stored, factor="server", base=A, candidate=B, fixed_factors={"server": A})


def test_levels_of_a_factor_that_is_not_the_compared_one() -> None:
    stored = run(clients=(1, 4))
    found = explain(stored, factor="clients", base=1, candidate="4")
    assert [each.factor for each in found] == ["clients", "clients"]
    assert [each.group for each in found] == [A, B]
    assert (found[0].base, found[0].candidate) == ("clients 1", "clients 4")
    named = explain(stored, factor="clients", base=1, candidate=4, fixed_factors={"server": B})
    assert [each.group for each in named] == [B]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [(A, "does not differ from itself"), ("mysql-4.1", "no treatment in common")],
)
def test_levels_that_are_not_there(candidate: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        explain(run(), factor="server", base=A, candidate=candidate)


def test_a_run_that_nobody_observed_still_has_its_latencies() -> None:
    stored = run(profiled=0)
    bare = [replace(attempt, observations=Observations()) for attempt in stored.attempts]
    found = one(replace(stored, attempts=tuple(bare)))
    assert known(found.differences).lines == ()
    assert known(found.differences).unaccounted.difference.mean == pytest.approx(44 * 1.1, rel=1e-3)
    assert (found.profile, found.waits, found.plans, found.a.coverage) == (None, (), (), None)


def test_a_side_without_a_finished_trial_has_no_account() -> None:
    stored = run()
    of_a = {trial.id for trial in stored.trials if trial.treatment_id == "treatment-0"}
    failed = [
        replace(a, outcome="failed", failed_step="profile", reason="perf is gone")
        if a.trial_id in of_a
        else a
        for a in stored.attempts
    ]
    found = one(replace(stored, attempts=tuple(failed)))
    assert (found.a.breakdown, found.differences, found.profile, found.variables) == (
        None, None, None, None,
    )  # fmt: skip
    lack = found.missing[0]
    assert (lack.side, lack.observer, lack.trials) == ("A", "profile", 2)
    assert "perf is gone" in lack.what


def test_unequal_work_is_explained() -> None:
    stored = run()
    trials = {trial.id for trial in stored.trials if trial.treatment_id == "treatment-1"}
    failing = [
        replace(
            attempt,
            measurements=tuple(
                replace(m, value=round(0.1 * m.value + 10_000)) if m.name == "errors" else m
                for m in attempt.measurements
            ),
        )
        if attempt.trial_id in trials
        else attempt
        for attempt in stored.attempts
    ]
    found = one(replace(stored, attempts=tuple(failing)))
    assert "ended in an error" in found.unequal
    assert one(stored).unequal == ""


def test_servers_that_are_alike_have_no_significant_part() -> None:
    found = one(explained_run(lambda _server, block: (FAST.times(1 + block / 10), {}), scene=EXACT))
    assert not any(line.significant for line in known(found.differences).lines)
    assert not any(row.significant for row in found.efficiency)


def test_reason_is_given_when_no_cause_is_likely() -> None:
    assert one(run()).why_no_likely_causes == ""
    same = one(explained_run(lambda _, block: (FAST.times(1 + block / 10), {}), blocks=3))
    assert same.likely_causes == ()
    why = "No cause follows from the times: latencies do not differ by more than chance."
    assert same.why_no_likely_causes == why
