"""Test the kept data of trials in loops, and counted starts, which come after all trials."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from millrace.app import execution
from millrace.app.execution import Caller
from millrace.app.report import RunReport
from millrace.campaign import attempts
from millrace.campaign.blocks import mean_start_s
from millrace.campaign.inputs import trial_spec
from millrace.errors import HostError, Interrupted
from millrace.experiment.model import COUNTED_STARTS
from millrace.experiment.read import Overrides
from millrace.model.events import Emitted
from millrace.model.instruction_counts import CountedStart, Repetition, stored_counts
from millrace.servers.snapshots import kept_data
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store.records import AttemptResult, MeasurementRecord, StepRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.counting import EXTENTS, Extent
from millrace.trial.spec import TrialSpec
from tests.support.experiment_files import experiment_text, read_text
from tests.support.measured import alone, carried, newest

LOOPS = 2
FILE = experiment_text(
    "linkbench",
    servers=["mysql-5.6.24"],
    blocks=1,
    seed=1,
    collectors=[],
    parameters={"nodes": 1000, "loops": LOOPS, "time_s": 1},
)
FINISHED = AttemptResult(
    "finished",
    measurements=(
        MeasurementRecord("transactions", 1000.0),
        MeasurementRecord("measure_duration_s", 2.0),
    ),
)


class _Killed(BaseException):
    """An exception that ends millrace, as a signal would."""


@dataclass
class Host:
    """A stand-in for the server of a trial that leaves its data directory."""

    directory: Path
    result: AttemptResult = FINISHED

    def execute_trial(self, spec: TrialSpec, _emit: object) -> AttemptResult:
        KeptData.of(spec.name).begin(None)
        return self.result

    def run(self) -> list[str]:
        """Run the experiment, and return what was announced."""
        said: list[Emitted] = []
        execution.run(
            self.directory / "results.sqlite",
            read_text(self.directory, FILE),
            Caller("run", said.append),
        )
        return [str(event) for event in said]

    @property
    def outcomes(self) -> list[str | None]:
        stored = newest(self.directory / "results.sqlite")
        return [each.outcome for each in stored.attempts]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    alone(monkeypatch)
    for name in ("STATE", "WORK"):
        monkeypatch.setenv(f"MILLRACE_{name}", str(tmp_path / name.lower()))
    real, spec_of = attempts.execute_claimed, trial_spec
    carried(monkeypatch, lambda _levels, _block: None)
    host = Host(tmp_path)
    monkeypatch.setattr(attempts, "execute_claimed", real)
    monkeypatch.setattr(attempts, "execute_trial", host.execute_trial)
    monkeypatch.setattr(attempts, "_STORE_PAUSE_S", 0.0)
    monkeypatch.setattr(
        attempts, "trial_spec", lambda *given: replace(spec_of(*given), loops=LOOPS)
    )
    return host


def test_a_stored_result_ends_the_data(host: Host) -> None:
    host.run()
    assert host.outcomes == ["finished"]
    assert kept_data.all_kept() == []


def test_a_failure_ends_the_data_unless_the_host_failed(host: Host) -> None:
    host.result = AttemptResult("failed", failed_step="measure", reason="it crashed")
    host.run()
    assert (host.outcomes, kept_data.all_kept()) == (["failed"], [])


def test_a_failure_of_the_host_keeps_the_data_for_another_attempt(host: Host) -> None:
    host.result = AttemptResult(
        "failed", failed_step="measure", reason="no space", is_transient=True
    )
    for _ in range(2):
        host.run()
        assert host.outcomes == ["failed"]
        assert len(kept_data.all_kept()) == 1


def test_data_is_kept_where_the_result_cannot_be_stored(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise HostError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "finish_attempts", full)
        with pytest.raises(HostError):
            host.run()
    assert len(kept_data.all_kept()) == 1


def test_the_next_command_removes_what_a_kill_left_after_the_result(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_kept: KeptData) -> None:
        raise _Killed

    monkeypatch.setattr(KeptData, "begin", lambda kept, _none: _begun(kept))
    with monkeypatch.context() as patch:
        patch.setattr(KeptData, "remove", killed)
        with pytest.raises(_Killed):
            host.run()
    assert host.outcomes == ["finished"]
    assert len(kept_data.all_kept()) == 1
    other = KeptData.of("another run/trial")
    _begun(other)
    with monkeypatch.context() as patch:
        patch.setattr(KeptData, "remove", _refused)
        assert any("cannot remove the data of a finished trial" in each for each in host.run())
    host.run()
    assert [each.trial for each in kept_data.all_kept()] == [other.trial]


def _begun(kept: KeptData) -> None:
    kept.directory.mkdir(mode=0o700, parents=True)
    kept.append("")
    (kept.directory / "trial").write_text(kept.trial)


def _refused(_kept: KeptData) -> None:
    raise HostError("it cannot be removed")


COUNTED_FILE = experiment_text(
    "sysbench",
    blocks=3,
    design="interleaved",
    collectors=["instructions"],
    factors={"clients": [1, 8], "test": ["point-query"]},
    parameters={"table_size": 100},
)
SMALLEST = EXTENTS[-1]


@dataclass
class CountingHost:
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

    def run(self, text: str = COUNTED_FILE, *, retry_failed: bool = False) -> RunReport:
        experiment = read_text(self.directory, text, overrides=Overrides(seed=1))
        return execution.run(self.store, experiment, Caller("run"), retry_failed=retry_failed)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CountingHost:
    alone(monkeypatch)
    real = attempts.execute_claimed
    carried(monkeypatch, lambda _levels, _block: None)
    counting = CountingHost(tmp_path, tmp_path / "results.sqlite")
    monkeypatch.setattr(attempts, "execute_claimed", real)
    monkeypatch.setattr(attempts, "count_trial", counting.count_trial)
    monkeypatch.setattr(attempts, "execute_trial", counting.execute_trial)
    return counting


def counted(stored: StoredRun) -> list[str]:
    """Return the outcomes of counted trials, in their order."""
    last = stored.last_attempts()
    return [str(last[each.id].outcome) for each in stored.trials if each.purpose == "count"]


def test_each_treatment_is_counted_by_the_same_statements_after_all_trials(
    counting: CountingHost,
) -> None:
    found = counting.run()
    stored = newest(counting.store)
    kinds = [each.purpose for each in stored.trials]
    assert kinds[: counting.measured] == ["measure"] * counting.measured
    assert kinds[counting.measured :] == ["count"] * (2 * COUNTED_STARTS)  # 1 and 8 clients alike
    assert counting.asked == [None, *[SMALLEST] * 7]
    assert stored.run.blocks == 3
    assert mean_start_s(stored) == 40.0
    assert stored.run.spec.collectors == ()
    explanations = [each.instructions for each in found.explanations]
    assert len(explanations) == 2
    assert {each.verdict for each in explanations if each is not None} == {"no difference shown"}
    assert not found.analysis.failures


def test_counts_are_added_to_a_run_and_not_repeated(counting: CountingHost) -> None:
    first = counting.run(COUNTED_FILE.replace('"instructions"', ""))
    assert counting.asked == []
    counting.measured = 0
    added = counting.run()
    assert added.analysis.run.id == first.analysis.run.id
    assert len(counting.asked) == 8
    assert added.analysis.holds_for == first.analysis.holds_for == "once"
    counting.asked.clear()
    counting.run()
    assert (counting.measured, counting.asked) == (0, [])


def test_an_interrupted_run_counts_what_is_left(counting: CountingHost) -> None:
    counting.ends_after = 3
    with pytest.raises(Interrupted):
        counting.run()
    counting.asked.clear()
    counting.run()
    assert counting.asked == [SMALLEST] * 5
    assert counted(newest(counting.store)) == ["finished"] * 8


def test_one_start_of_four_may_fail(counting: CountingHost) -> None:
    counting.fails = lambda number: number == 1
    found = counting.run()
    assert counted(newest(counting.store)).count("failed") == 1
    assert len(counting.asked) == 2 * COUNTED_STARTS
    counts = found.explanations[0].instructions
    assert counts is not None
    assert counts.verdict == "no difference shown"
    assert {counts.base.left_out, counts.candidate.left_out} == {0, 1}


def test_a_server_that_fails_twice_is_started_no_more_and_the_run_goes_on(
    counting: CountingHost,
) -> None:
    counting.fails = lambda number: number in (1, 4)  # every second block has the reverse order
    found = counting.run()
    assert counted(newest(counting.store)).count("failed") == COUNTED_STARTS
    assert len(counting.asked) == 2 + COUNTED_STARTS
    assert not found.analysis.failures
    (why, *_) = (each.instructions for each in found.explanations)
    assert why is not None
    assert why.verdict == "refused"
    assert "it does not start" in {why.base.refusal, why.candidate.refusal}
    counting.asked.clear()
    counting.fails = lambda _number: False
    again = counting.run(retry_failed=True)
    assert len(counting.asked) == COUNTED_STARTS
    assert {each.instructions and each.instructions.verdict for each in again.explanations} == {
        "no difference shown"
    }
