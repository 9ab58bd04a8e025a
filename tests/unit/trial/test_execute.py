"""Test whole trials on fake servers: several servers by role, and hooks of other modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.loadgen.events import LoadResult
from millrace.model.servers import FittedOptions
from millrace.trial import measure
from millrace.trial.execute import execute_trial
from millrace.trial.hooks import MeasurementContext, MeasurementHook
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.fake_family import family
from tests.fake_family.family import Script
from tests.support.small_workload import driving
from tests.unit.fake_servers import fakes

WORKLOAD = ResolvedWorkload(
    driving(), {"time_s": 1.0, "warmup_s": 0.0, "fits": "any", "settle_s": 0}
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with fakes(tmp_path, monkeypatch):
        yield tmp_path


def spec(place: Path, *roles: str) -> TrialSpec:
    servers = (
        ServerSpec(
            family.install(f"fake-{role}", Script(), place / role),
            FittedOptions("default", ()),
            role=role,
        )
        for role in roles
    )
    return TrialSpec("test/1", tuple(servers), WORKLOAD, collectors=("waits",))


def test_a_trial_has_several_servers_by_role(place: Path) -> None:
    result = execute_trial(spec(place, "source", "replica"), lambda _event: None)
    assert result.outcome == "finished", result.reason
    roles = ["source", "replica"]
    assert [each.role for each in result.instances] == roles
    assert [each.server.name for each in result.instances] == ["fake-source", "fake-replica"]
    assert list(result.observations) == roles
    assert [role for kind, role, _ in result.artefacts if kind == "error_log"] == roles
    reads = {m.role: m.value for m in result.measurements if m.name == "buffer_pool_reads"}
    assert reads.keys() == set(roles)
    names = [each.name for each in result.steps]
    for role in roles:
        assert names.count(f"{role}: start") == 2, "it is started to load, and again restored"
    assert names.count("measure") == 1
    assert names[-4:] == ["replica: stop", "replica: sizes", "source: stop", "source: sizes"]


def test_a_database_is_dropped_after_its_files_were_measured(place: Path) -> None:
    workload = ResolvedWorkload(driving(), {**WORKLOAD.chosen, "drop_after": "on"})
    result = execute_trial(replace(spec(place, "server"), workload=workload), lambda _event: None)
    assert result.outcome == "finished", result.reason
    names = [each.name for each in result.steps]
    assert names[-4:] == ["write_back", "sizes", "drop", "stop"]
    measured = {each.name: each.value for each in result.measurements}
    assert measured["drop_s"] > 0
    assert measured["data_dir_apparent_bytes"] > 0


class _Refusing(MeasurementHook):
    """A hook that notes its calls and refuses the measurement in the end."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def before(self) -> None:
        self._calls.append("before")

    def ended(self) -> None:
        self._calls.append("ended")

    def contribute(self, result: LoadResult) -> None:
        self._calls.append("contribute")

    def verify(self, result: LoadResult) -> None:
        raise TrialFailed("it does not count")


def test_a_hook_acts_around_the_measurement_and_may_refuse_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def hooks(_measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
        opened.callback(calls.append, "closed")
        yield _Refusing(calls)

    monkeypatch.setattr(measure, "HOOKS", (*measure.HOOKS, hooks))
    result = execute_trial(spec(place, "server"), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", "measure")
    assert result.reason == "it does not count"
    assert calls == ["before", "ended", "contribute", "closed"]
    assert any(each.name == "transactions" for each in result.measurements)
