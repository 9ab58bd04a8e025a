"""Test the steps of a server that millrace runs, on fake servers."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.model.servers import FittedOptions, InstalledServer
from millrace.store.records import StepRecord
from millrace.trial.managed_server import ManagedServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.steps import execute_steps
from millrace.trial.trial_server import TrialContext
from tests.fake_family import family
from tests.support.fake_servers import fakes
from tests.support.small_workload import driving


@pytest.mark.parametrize(("snapshot", "why"), [("on", None), ("off", "snapshots are off")])
def test_reason_is_kept_when_tables_are_not_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str, why: str | None
) -> None:
    installed = family.install("fake", family.Script(), tmp_path / "fake")
    with fakes(tmp_path, monkeypatch):
        server, _steps = get_ready(installed, ResolvedWorkload(driving(), {"snapshot": snapshot}))
        assert server.not_restored == why


def test_each_test_of_a_sequence_starts_from_the_snapshot_of_its_own_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = family.install("fake", family.Script(), tmp_path / "fake")
    definition = driving(sequence=["pair", "one", "point"])
    prepared = ["restore", "start", "record", "check_tables"]
    aged = ["restore", "start", "warm", "fits for {}", "{}", "analyse", "keep", "stop", "save"]
    with fakes(tmp_path, monkeypatch):

        def steps_of(test: str) -> list[str]:
            workload = ResolvedWorkload(definition, {"test": test, "time_s": 0.1})
            server, steps = get_ready(installed, workload)
            assert server.not_restored is None
            names = [step.name for step in steps]
            assert names[0] == "prepare"
            return names[1:]

        made = steps_of("one")
        assert made[:2] == ["initialise", "start"]
        after_pair = [name.format("pair") for name in aged]
        after_one = [name.format("one") for name in aged]
        first = made.index("restore")
        assert made[first:] == [*after_pair, *prepared]
        assert steps_of("pair") == prepared
        assert steps_of("point") == [*after_one, *prepared]


def get_ready(
    installed: InstalledServer, workload: ResolvedWorkload
) -> tuple[ManagedServer, tuple[StepRecord, ...]]:
    """Start a server with the tables of ``workload``; return it, stopped, and its steps."""
    server_spec = ServerSpec(installed, FittedOptions("default", ()))
    spec = TrialSpec("test/1", (server_spec,), workload)
    with ExitStack() as opened:
        trial = TrialContext(spec, TrialOutputs(), opened, lambda _event: None)
        server = ManagedServer(server_spec, installed, trial)
        ended = execute_steps(server.ready_steps(), lambda _step: None)
        assert ended.cause is None
        return server, ended.steps
