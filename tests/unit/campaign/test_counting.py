"""Test that a run counts instructions after its trials, once, and goes on where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millrace.app import execution
from millrace.app.execution import Caller
from millrace.app.report import RunReport
from millrace.campaign import attempts
from millrace.campaign.counting import mean_start_s
from millrace.errors import Interrupted
from millrace.experiment.model import COUNTED_STARTS
from millrace.experiment.read import Overrides
from millrace.model.instruction_counts import CountedStart, Repetition, stored_counts
from millrace.store.records import AttemptResult, MeasurementRecord, StepRecord, StoredRun
from millrace.trial.counting import EXTENTS, Extent
from millrace.trial.spec import TrialSpec
from tests.unit.campaign.measured import alone, carried, newest
from tests.unit.experiment.files import read_text

FILE = """\
name = "counted"
workload = "sysbench"
blocks = 3
design = "interleaved"
collectors = {collectors}
[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
clients = [1, 8]
test = ["point-query"]
[compare]
factor = "server"
base = "mysql-5.6.24"
[parameters]
table_size = 100
"""
COUNTING = '["instructions"]'
SMALLEST = EXTENTS[-1]


@dataclass
class Host:
    """A stand-in for servers in and out of valgrind."""

    directory: Path
    store: Path
    asked: list[Extent | None] = field(default_factory=list)
    measured: int = 0
    fails: Callable[[int], bool] = lambda _number: False
    ends_after: int | None = None

    def count_trial(self, _spec: TrialSpec, extent: Extent | None, _emit: object) -> AttemptResult:
        if self.ends_after is not None and len(self.asked) >= self.ends_after:
            self.ends_after = None
            raise Interrupted("interrupted")
        self.asked.append(extent)
        if self.fails(len(self.asked)):
            return AttemptResult("failed", failed_step="count", reason="it does not start")
        chosen = extent or SMALLEST
        start = CountedStart(
            chosen.many,
            (Repetition(instructions=1000.0, background=1.0),),
            {("dispatch_command",): 1000.0},
            {},
        )
        counts = stored_counts(start, None, "3.19.0")
        observed = {"server": {"instructions": counts}}
        steps = (StepRecord(0, "count", 0.0, 40.0, "finished"),)
        return AttemptResult("finished", steps=steps, observations=observed)

    def execute_trial(self, _spec: TrialSpec, _emit: object) -> AttemptResult:
        self.measured += 1
        values = {"transactions": 1000.0, "measure_duration_s": 2.0}
        return AttemptResult(
            "finished",
            steps=(StepRecord(0, "measure", 0.0, 3.0, "finished"),),
            measurements=tuple(MeasurementRecord(*each) for each in values.items()),
        )

    def run(self, *, collectors: str = COUNTING, retry_failed: bool = False) -> RunReport:
        experiment = read_text(
            self.directory, FILE.format(collectors=collectors), overrides=Overrides(seed=1)
        )
        return execution.run(self.store, experiment, Caller("run"), retry_failed=retry_failed)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    alone(monkeypatch)
    real = attempts.execute_claimed
    carried(monkeypatch, lambda _levels, _block: None)
    host = Host(tmp_path, tmp_path / "results.sqlite")
    monkeypatch.setattr(attempts, "execute_claimed", real)
    monkeypatch.setattr(attempts, "count_trial", host.count_trial)
    monkeypatch.setattr(attempts, "execute_trial", host.execute_trial)
    return host


def counted(stored: StoredRun) -> list[str]:
    """Return the outcomes of counted trials, in their order."""
    last = stored.last_attempts()
    return [str(last[each.id].outcome) for each in stored.trials if each.purpose == "count"]


def test_each_treatment_is_counted_by_the_same_statements_after_all_trials(host: Host) -> None:
    found = host.run()
    stored = newest(host.store)
    kinds = [each.purpose for each in stored.trials]
    assert kinds[: host.measured] == ["measure"] * host.measured
    assert kinds[host.measured :] == ["count"] * (2 * COUNTED_STARTS)  # 1 and 8 clients alike
    assert host.asked == [None, *[SMALLEST] * 7]
    assert stored.run.blocks == 3
    assert mean_start_s(stored) == 40.0
    assert stored.run.spec.collectors == ()
    explanations = [each.instructions for each in found.explanations]
    assert len(explanations) == 2
    assert {each.verdict for each in explanations if each is not None} == {"no difference shown"}
    assert not found.analysis.failures


def test_counts_are_added_to_a_run_and_not_repeated(host: Host) -> None:
    first = host.run(collectors="[]")
    assert host.asked == []
    host.measured = 0
    added = host.run()
    assert added.analysis.run.id == first.analysis.run.id
    assert len(host.asked) == 8
    assert added.analysis.holds_for == first.analysis.holds_for == "once"
    host.asked.clear()
    host.run()
    assert (host.measured, host.asked) == (0, [])


def test_an_interrupted_run_counts_what_is_left(host: Host) -> None:
    host.ends_after = 3
    with pytest.raises(Interrupted):
        host.run()
    host.asked.clear()
    host.run()
    assert host.asked == [SMALLEST] * 5
    assert counted(newest(host.store)) == ["finished"] * 8


def test_one_start_of_four_may_fail(host: Host) -> None:
    host.fails = lambda number: number == 1
    found = host.run()
    assert counted(newest(host.store)).count("failed") == 1
    assert len(host.asked) == 2 * COUNTED_STARTS
    counts = found.explanations[0].instructions
    assert counts is not None
    assert counts.verdict == "no difference shown"
    assert {counts.base.left_out, counts.candidate.left_out} == {0, 1}


def test_a_server_that_fails_twice_is_started_no_more_and_the_run_goes_on(host: Host) -> None:
    host.fails = lambda number: number in (1, 4)  # every second block has the reverse order
    found = host.run()
    assert counted(newest(host.store)).count("failed") == COUNTED_STARTS
    assert len(host.asked) == 2 + COUNTED_STARTS
    assert not found.analysis.failures
    (why, *_) = (each.instructions for each in found.explanations)
    assert why is not None
    assert why.verdict == "refused"
    assert "it does not start" in {why.base.refusal, why.candidate.refusal}
    host.asked.clear()
    host.fails = lambda _number: False
    again = host.run(retry_failed=True)
    assert len(host.asked) == COUNTED_STARTS
    assert {each.instructions and each.instructions.verdict for each in again.explanations} == {
        "no difference shown"
    }
