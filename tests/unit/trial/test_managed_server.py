"""Test the steps of a server that millrace runs, on fake servers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from millrace.model.servers import FittedOptions
from millrace.trial.managed_server import ManagedServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.steps import execute_steps
from millrace.trial.trial_server import TrialContext
from tests.fake_family import family
from tests.unit.fake_servers import fakes
from tests.unit.workloads.small import driving


@pytest.mark.parametrize(("snapshot", "why"), [("on", None), ("off", "snapshots are off")])
def test_a_server_says_why_its_tables_are_not_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str, why: str | None
) -> None:
    installed = family.install("fake", family.Script(), tmp_path / "fake")
    server_spec = ServerSpec(installed, FittedOptions("default", ()))
    workload = ResolvedWorkload(driving(), {"snapshot": snapshot})
    spec = TrialSpec("test/1", (server_spec,), workload)
    with fakes(tmp_path, monkeypatch), ExitStack() as opened:
        trial = TrialContext(spec, TrialOutputs(), opened, lambda _event: None)
        server = ManagedServer(server_spec, installed, trial)
        ended = execute_steps(server.ready_steps(), lambda _step: None)
        assert ended.cause is None
        assert server.not_restored == why
