"""Test that the kept data of a trial in loops outlives everything but its stored result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from millrace.app import execution
from millrace.app.execution import Caller
from millrace.campaign import attempts
from millrace.campaign.inputs import trial_spec
from millrace.errors import HostError
from millrace.model.events import Emitted
from millrace.servers.snapshots import kept_data
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store.records import AttemptResult, MeasurementRecord
from millrace.store.store import Store
from millrace.trial.spec import TrialSpec
from tests.unit.campaign.measured import alone, carried, newest
from tests.unit.experiment.files import read_text

FILE = """\
name = "loops"
workload = "linkbench"
blocks = 1
seed = 1
collectors = []
[factors]
server = ["mysql-5.6.24"]
[compare]
base = "mysql-5.6.24"
[parameters]
nodes = 1000
loops = {LOOPS}
time_s = 1
"""
LOOPS = 2
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
            read_text(self.directory, FILE.format(LOOPS=LOOPS)),
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
        assert any("the data of a finished trial is not removed" in each for each in host.run())
    host.run()
    assert [each.trial for each in kept_data.all_kept()] == [other.trial]


def _begun(kept: KeptData) -> None:
    kept.directory.mkdir(mode=0o700, parents=True)
    kept.append("")
    (kept.directory / "trial").write_text(kept.trial)


def _refused(_kept: KeptData) -> None:
    raise HostError("it cannot be removed")
