"""Test runs whose pairs an earlier version measured at the same time, each on half of the CPUs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace.analysis.compare.compare_run import compare_run
from millrace.cli.main import cli
from millrace.model.run_spec import Design
from millrace.report.run import notes
from millrace.store.records import StoredRun
from tests.unit.analysis.query_runs import QueryRun
from tests.unit.analysis.sequential_runs import designed
from tests.unit.cli.observed_store import keep

BASE, OTHER = "mysql-5.6.24", "mysql-5.7.22"
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
def test_the_pair_that_was_together_least_is_told(late_s: float, share: float) -> None:
    analysis = compare_run(began(STORED, late_s))
    assert analysis.overlap == pytest.approx(share)
    conditions = [line for line in notes.conditions(analysis) if "both of a pair" in line]
    warnings = [line for line in notes.warnings(analysis) if "had the host to itself" in line]
    assert (len(conditions), len(warnings)) == ((1, 0) if share >= 0.95 else (0, 1))


def test_of_trials_in_turns_nothing_is_said() -> None:
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
