"""Test workers on fake servers: trials that finish, fail, are refused, and concurrent pairs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.host.cpuset import CpuPartition, cpu_partitions
from millrace.levels import Level
from millrace.model.events import StepBegan
from millrace.model.servers import AttachedServer, FittedOptions, InstalledServer
from millrace.servers import attached, install
from millrace.store.records import PAIR_FAILED
from millrace.tls import Tls
from millrace.trial import concurrent_pair
from millrace.trial.concurrent_pair import execute_pair
from millrace.trial.execute import execute_trial
from millrace.trial.group import GroupTrial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.trial_document import (
    EventMessage,
    Message,
    ResultMessage,
    read_message,
    read_trial,
    resolve,
    trial_document,
    write_line,
)
from millrace.trial.worker import Worker
from tests.fake_family import family
from tests.unit.fake_servers import fakes
from tests.unit.trial.fake_worker import SCRIPTS, find_in
from tests.unit.workloads.small import driving

QUICK: dict[str, Level] = {"time_s": 1.0, "warmup_s": 0.0, "fits": "any", "settle_s": 0}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with fakes(tmp_path, monkeypatch):
        monkeypatch.setattr(install, "find", find_in(tmp_path))
        monkeypatch.setattr(
            concurrent_pair,
            "COMMAND",
            (sys.executable, "-m", "tests.unit.trial.fake_worker", str(tmp_path)),
        )
        yield tmp_path


def spec(place: Path, name: str, trial: str = "test/1") -> TrialSpec:
    server = family.install(name, SCRIPTS[name], place / name)
    options = FittedOptions("default", ())
    workload = ResolvedWorkload(driving(), QUICK)
    return TrialSpec(trial, (ServerSpec(server, options),), workload, collectors=("waits",))


def sent(line: bytes) -> list[Message]:
    """Return the messages of a worker that gets a line."""
    outbox = io.BytesIO()
    theirs, ours = os.pipe()
    with os.fdopen(theirs, "rb") as inbox, os.fdopen(ours, "wb", buffering=0) as sender:
        sender.write(line)
        Worker(inbox, outbox).run()
    return [read_message(each) for each in outbox.getvalue().splitlines(keepends=True)]


def results(messages: Sequence[Message]) -> list[ResultMessage]:
    return [each for each in messages if isinstance(each, ResultMessage)]


def test_a_trial_is_executed_as_in_this_process(place: Path) -> None:
    for name in ("fake-1", "fake-2"):
        trial = spec(place, name)
        line = write_line(trial_document(trial))
        assert str(place) not in line.decode()
        messages = sent(line)
        (message,) = results(messages)
        here = execute_trial(trial, lambda _event: None)
        assert message.result.outcome == here.outcome == "finished"
        names = [[m.name for m in of.measurements] for of in (message.result, here)]
        # The first trial loaded the tables, and the next restored them.
        assert set(names[0]) ^ set(names[1]) <= {"snapshot_saved_s"}
        assert message.result.observations["server"].keys() == here.observations["server"].keys()
        assert message.result.instances[0].effective.keys() == here.instances[0].effective.keys()
        events = [m.event for m in messages if isinstance(m, EventMessage)]
        steps = [event.name for event in events if isinstance(event, StepBegan)]
        assert steps[-3:] == ["measure", "stop", "sizes"]


def test_an_attached_server_keeps_the_tls_settings_of_the_experiment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = AttachedServer("far", "mysql", "mysql://user:secret@far.example:3306/")
    verified = Tls("verify-ca", Path("/etc/ca.pem"), allow_unverified=True)
    options = FittedOptions("default", ())
    servers = (ServerSpec(attached.with_tls(known, verified), options),)
    line = write_line(trial_document(replace(spec(place, "fake-1"), servers=servers)))
    assert b"secret" not in line
    monkeypatch.setattr(install, "find", lambda _name: known)
    with ExitStack() as opened:
        (found,) = resolve(read_trial(line), opened).servers
    assert isinstance(found.server, AttachedServer)
    address = attached.parse_dsn(found.server)
    assert (address.tls, address.password) == (verified, "secret")


def test_a_server_that_does_not_start_is_a_failed_trial(place: Path) -> None:
    (failed,) = results(sent(write_line(trial_document(spec(place, "broken")))))
    assert (failed.result.outcome, failed.result.failed_step) == ("failed", "start")
    assert "no room for the log" in (failed.result.reason or "")
    assert not failed.result.is_transient


def test_another_build_of_the_server_is_refused(place: Path) -> None:
    of = spec(place, "fake-1")
    (server,) = of.servers
    assert isinstance(server.server, InstalledServer)
    other = replace(server, server=replace(server.server, build_sha256="ab" * 32))
    (failed,) = results(sent(write_line(trial_document(replace(of, servers=(other,))))))
    assert (failed.result.outcome, failed.result.failed_step) == ("failed", "prepare")
    assert "build of fake-1 differs" in (failed.result.reason or "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"definition": {}}, "workload"),
        ({"collectors": ("nobody",)}, "no collector nobody"),
        ({"name": "nobody"}, "no server nobody"),
        ({"slowdown": "cpu=200%"}, "cpu=200%"),
        ({"slowdown": "fsync"}, "fsync"),
    ],
)
def test_a_trial_that_cannot_be_resolved_is_a_failed_one(
    place: Path, changes: dict[str, Any], said: str
) -> None:
    trial = trial_document(spec(place, "fake-1"))
    (server,) = trial.servers
    of_server = {key: value for key, value in changes.items() if key in ("name", "slowdown")}
    of_trial = {key: value for key, value in changes.items() if key not in of_server}
    trial = trial.model_copy(update={**of_trial, "servers": (server.model_copy(update=of_server),)})
    (failed,) = results(sent(write_line(trial)))
    assert (failed.result.outcome, failed.result.failed_step) == ("failed", "prepare")
    assert said in (failed.result.reason or "")


def test_a_trial_for_cpus_that_are_not_here_is_refused(place: Path) -> None:
    elsewhere = replace(spec(place, "fake-1"), cpu_partition=CpuPartition(0, (100_000,)))
    line = write_line(trial_document(elsewhere))
    assert [each.kind for each in sent(line)] == ["invalid"]


@pytest.mark.parametrize(
    ("line", "kinds"), [(b"", []), (b"{}\n", ["invalid"]), (b'{"name": "a"', ["invalid"])]
)
def test_a_line_that_is_no_trial_ends_the_worker(line: bytes, kinds: list[str]) -> None:
    outbox = io.BytesIO()
    Worker(io.BytesIO(line), outbox).run()
    lines = outbox.getvalue().splitlines(keepends=True)
    assert [read_message(each).kind for each in lines] == kinds


def pair(place: Path, names: Sequence[str]) -> list[GroupTrial]:
    return [
        GroupTrial(
            replace(spec(place, name, f"test/{partition.side}"), cpu_partition=partition),
            name,
            lambda _event: None,
        )
        for name, partition in zip(names, cpu_partitions(), strict=True)
    ]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each trial needs a CPU")
def test_both_trials_of_a_pair_are_measured_at_the_same_time(place: Path) -> None:
    found = execute_pair(pair(place, ["fake-1", "fake-2"]))
    assert [each.outcome for each in found] == ["finished", "finished"], found
    sides = [each.instances[0].facts.concurrent for each in found]
    assert [side.side for side in sides if side] == [0, 1]
    assert [side.cpus for side in sides if side] == [each.cpus for each in cpu_partitions()]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each trial needs a CPU")
def test_a_pair_counts_as_a_whole(place: Path) -> None:
    left_out, failed = execute_pair(pair(place, ["fake-1", "broken"]))
    assert (failed.outcome, failed.failed_step) == ("failed", "start")
    assert (left_out.outcome, left_out.failed_step) == ("failed", PAIR_FAILED)
