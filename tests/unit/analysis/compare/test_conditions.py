"""Test the conditions besides the servers that affected the figures, from stored attempts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace.analysis.compare import conditions
from millrace.analysis.compare.compare_run import compare_run
from millrace.cli.main import cli
from millrace.model.host_facts import HostFacts
from millrace.model.run_spec import Design
from millrace.report.run import notes
from millrace.report.run.notes import conditions as conditions_of
from millrace.report.run.notes import warnings
from millrace.store.records import StoredRun
from tests.support.builders import Fails, RunBuilder, extended, measured, noisy, tried_again
from tests.support.known import known
from tests.support.query_runs import TIME_S, Levels, QueryRun, Values
from tests.support.sequential_runs import designed
from tests.unit.cli.observed_store import keep

BASE, OTHER = "mysql-5.6.24", "mysql-5.7.22"
RUN = RunBuilder({BASE: (4.0, 4.0, 4.0), OTHER: (2.0, 2.0, 2.0)}).build()


def test_the_wait_is_a_share_of_the_load_alone() -> None:
    analysis = compare_run(measured(RUN, "load_row_wait_s", {OTHER: 0.098}))
    base, other = analysis.treatments
    assert base.generator_wait is None
    assert other.generator_wait == pytest.approx(0.05)  # the load is 98 % of 2 s


def test_warnings_are_a_mean_of_trials_and_unknown_without_a_count() -> None:
    base, other = compare_run(measured(RUN, "load_warnings", {BASE: 7})).treatments
    assert (base.load_warnings, other.load_warnings) == (7, None)


def test_looks_are_counted_from_what_had_ended() -> None:
    run = RunBuilder({BASE: noisy(4, 10), OTHER: noisy(4, 10)}).build()
    assert conditions.blocks_at_extensions(run) == ()
    assert conditions.blocks_at_extensions(extended(run, 10, at_block=5)) == (5,)
    unobserved = extended(run, 10, at_block=0)
    assert conditions.blocks_at_extensions(unobserved) == ()


BEFORE, AFTER = "2026-01-05T10:00:00Z", "2026-01-05T10:01:00Z"


@pytest.mark.parametrize(
    ("load_s", "started_utc", "holds_for"),
    [(2.0, AFTER, "any"), (2.0, BEFORE, "once"), (None, AFTER, "once")],
)
def test_a_result_made_again_when_all_had_ended_follows_a_look(
    load_s: float | None, started_utc: str, holds_for: str
) -> None:
    run = RunBuilder({BASE: noisy(4, 6), OTHER: (Fails(), *noisy(2, 5))}).build()
    assert compare_run(run).holds_for == "once"
    analysis = compare_run(tried_again(run, load_s, started_utc=started_utc))
    assert analysis.holds_for == holds_for
    assert {c.estimate.looks for c in analysis.comparisons() if c.estimate} == {holds_for}
    notes = [each for each in warnings(analysis) if "made again" in each]
    result = (
        "1 trial that had failed was made again after the run had been over, so the interval is "
        "the wider one that holds for any number of looks"
    )
    assert notes == ([] if holds_for == "once" else [result])


def test_a_run_that_is_not_over_was_never_looked_at_as_a_whole() -> None:
    run = RunBuilder({BASE: (*noisy(4, 5), None), OTHER: (Fails(), *noisy(2, 5))}).build()
    assert conditions.retried(tried_again(run, 2.0, started_utc=AFTER)) == 0


def test_conditions_of_driven_clients_are_of_all_their_trials() -> None:
    def also(_levels: Levels, block: int) -> Values:
        restored = {"snapshot_restore_s": 1.5, "snapshot_saved_s": 21.5} if block else {}
        return {"settled": float(block > 0), "settle_duration_s": 10.0 * (3 - block),
                "buffer_pool_reads": 50.0 * block, "buffer_pool_read_requests": 1_000.0,
                "transactions": 1_000.0 * (block + 1), "load_generator_user_s": 0.5,
                "load_generator_system_s": 1.0, "server_user_s": 3.0, "server_system_s": 1.0,
                "load_generator_voluntary_switches": 900.0,
                "load_generator_involuntary_switches": 100.0, **restored}  # fmt: skip

    stored = QueryRun((BASE,), ("point-query",), (8,), 3, also=also).build()
    (treatment,) = compare_run(stored).treatments
    driven = known(treatment.driven)
    assert (driven.trials, driven.unsettled, driven.longest_settle_s) == (3, 1, 30.0)
    assert driven.missed == pytest.approx(150 / 3_000)
    assert driven.snapshots_saved_s == pytest.approx(40.0)
    assert driven.client_s == pytest.approx(4.5 / 6_000)
    assert driven.server_s == pytest.approx(12 / 6_000)
    assert driven.client_switches == pytest.approx(0.5)
    assert driven.client_share == pytest.approx(4.5 / (3 * TIME_S * 2))  # the host has 2 CPUs


def test_without_driven_clients_there_are_no_such_conditions() -> None:
    assert all(treatment.driven is None for treatment in compare_run(RUN).treatments)


def test_condition_is_none_when_a_trial_has_none() -> None:
    stored = QueryRun((BASE,), ("point-query",), (8,), 2).build()
    first = stored.attempts[0]
    kept = tuple(m for m in first.measurements if not m.name.startswith(("server_", "load_gen")))
    lacking = replace(stored, attempts=(replace(first, measurements=kept), *stored.attempts[1:]))
    driven = known(compare_run(lacking).treatments[0].driven)
    assert (driven.server_s, driven.client_s, driven.client_share) == (None, None, None)
    assert driven.snapshots_saved_s is None
    unknown = replace(stored.run, host=replace(stored.run.host, facts=HostFacts()))
    assert conditions.trial_cpus(unknown) is None


def test_concurrent_a_trial_has_half_of_the_cpus_and_half_of_the_time() -> None:
    stored = QueryRun((BASE, OTHER), ("point-query",), (8,), 2).build()
    beside = designed(stored, Design(kind="fixed", blocks=2, concurrent=True))
    in_turns, concurrent = compare_run(stored), compare_run(beside)
    assert conditions.trial_cpus(stored.run) == 2
    assert conditions.trial_cpus(beside.run) == 1
    shares = [run.treatments[0].driven for run in (in_turns, concurrent)]
    assert known(shares[1]).client_share == pytest.approx(2 * (known(shares[0]).client_share or 0))
    assert concurrent.spent_s == pytest.approx(in_turns.spent_s / 2)
    (result,) = [line for line in conditions_of(concurrent) if "load generator used" in line]
    assert "of its half’s CPU time" in result


STORED = designed(
    QueryRun((BASE, OTHER), ("point-query",), (1, 8), 2).build(),
    Design(kind="fixed", blocks=2, concurrent=True),
)


def began(stored: StoredRun, late_s: float) -> StoredRun:
    """Return pairs measured for 10 s; in the last pair one server starts this much later."""
    servers = {each.id: each.levels["server"] for each in stored.treatments}
    clients = {each.id: each.levels["clients"] for each in stored.treatments}
    trials = {trial.id: trial for trial in stored.trials}
    attempts = []
    for attempt in stored.attempts:
        trial = trials[attempt.trial_id]
        of = trial.treatment_id
        is_late = (trial.block, clients[of], servers[of]) == (1, 8, OTHER)
        from_s = 100.0 * trial.block + (late_s if is_late else 0.0)
        fact = {"side": 0, "cpus": [0], "measured_from_s": from_s, "measured_to_s": from_s + 10}
        (instance,) = attempt.instances
        noted = replace(instance, facts=instance.facts.replace(concurrent=fact))
        attempts.append(replace(attempt, instances=(noted,)))
    return replace(stored, attempts=tuple(attempts))


@pytest.mark.parametrize(("late_s", "share"), [(0.0, 1.0), (0.1, 0.99), (-2.0, 0.8), (20.0, 0.0)])
def test_least_overlap_is_that_of_the_worst_pair(late_s: float, share: float) -> None:
    analysis = compare_run(began(STORED, late_s))
    assert analysis.overlap == pytest.approx(share)
    conditions = [line for line in notes.conditions(analysis) if "both of a pair" in line]
    warnings = [line for line in notes.warnings(analysis) if "had the host to itself" in line]
    assert (len(conditions), len(warnings)) == ((1, 0) if share >= 0.95 else (0, 1))


def test_overlap_is_none_when_trials_took_turns() -> None:
    assert compare_run(STORED).overlap is None


def test_a_pair_that_lost_one_is_none() -> None:
    stored = began(STORED, 20.0)
    lost = [replace(each, outcome="failed") for each in stored.attempts]
    assert compare_run(replace(stored, attempts=tuple(lost))).overlap is None


def test_a_stored_run_of_pairs_is_reported_as_it_was_recorded(tmp_path: Path) -> None:
    path = keep(began(STORED, 0.1), tmp_path / "results.sqlite")

    def report(*arguments: str) -> str:
        given = ["report", "--store", str(path), *arguments]
        return CliRunner().invoke(cli, given, catch_exceptions=False).stdout

    shown = " ".join(report().split())
    assert "side by side, 2 blocks" in shown
    assert "measured at the same time for at least 99.0 % of it" in shown
    document = json.loads(report("--format", "json"))
    assert document["design"]["concurrent"] is True
    assert len(document["comparisons"]) == len(compare_run(STORED).groups) * len(
        document["metrics"]
    )
