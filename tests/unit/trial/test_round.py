"""Test what makes a round not count."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from millrace import databases, workloads
from millrace.errors import TrialFailed
from millrace.loadgen import client as load_generator
from millrace.loadgen.events import Event
from millrace.loadgen.spec import Connection, Drive, LoadData, Statement
from millrace.model import measurements as names
from millrace.store.records import StepRecord
from millrace.trial import phase_spec
from millrace.trial import round as round_of_trials
from millrace.trial.hooks import LiveServer
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.round import (
    RoundTrial,
    _disk_reads_are_even,
    _end_s,
    _measure,
    _Side,
    round_load_spec,
)
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.trial_server import TrialContext
from tests.support.measuring import BEGIN, live
from tests.support.small_workload import driving

MYSQL = databases.get("mysql")
SERVER = SimpleNamespace()  # nothing asks for it


def side(test: str, read_bytes: float, *, time_s: float = 4.0) -> _Side:
    spec = TrialSpec(
        name="test/0",
        servers=(),
        workload=ResolvedWorkload(driving(), {"test": test, "time_s": time_s}),
    )
    outputs = TrialOutputs()
    outputs.add_measurement(names.SERVER_READ_BYTES, read_bytes)
    trial = RoundTrial(spec, "mysql-8.0.33", lambda _event: None)
    return _Side(trial, TrialContext(spec, outputs, ExitStack(), trial.emit))


@pytest.mark.parametrize(
    ("test", "read", "counts"),
    [
        ("pair", (600_000, 100_000), False),
        ("pair", (600_000, 400_000), True),
        ("pair", (400_000, 0), True),
        ("point", (9_000_000, 0), True),  # clients that read have the bound of the buffer pool
    ],
)
def test_clients_that_write_wait_alike_for_the_disk(
    test: str, read: tuple[float, float], counts: bool
) -> None:
    sides = [side(test, each) for each in read]
    assert _disk_reads_are_even(sides) is counts
    assert (sides[0].cause is None) is counts
    assert sides[1].cause is None


def test_longer_rounds_may_read_more() -> None:
    sides = [side("pair", each, time_s=8.0) for each in (900_000, 100_000)]
    assert _disk_reads_are_even(sides)
    sides = [side("pair", each, time_s=8.0) for each in (1_100_000, 100_000)]
    assert not _disk_reads_are_even(sides)


def troubled_once() -> Callable[[], None]:
    """Return the check of a server that lives on: its log has a line of trouble, read once."""
    lines = ["disk is full"]

    def check() -> None:
        if lines:
            raise TrialFailed(f"the server's log: {lines.pop()}")

    return check


def test_trouble_that_a_log_shows_once_fails_the_side_that_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_spec: object, *, on_event: Callable[[Event], None], **_limit: Any) -> NoReturn:
        on_event(BEGIN)
        raise load_generator.LoadFailed("no answer for 60 s", side=1)

    monkeypatch.setattr(load_generator, "run", fail)
    monkeypatch.setattr(round_of_trials, "round_load_spec", lambda *_: None)
    monkeypatch.setattr(round_of_trials, "_HOOKS", ())
    sides = [side("pair", 0.0) for _ in range(3)]
    servers = [live(None) for _ in sides]
    servers[1] = replace(servers[1], check=troubled_once())
    for each, server in zip(sides, servers, strict=True):
        each.loaded = [server]
    assert not _measure(sides, 0)
    assert [each.failed for each in sides] == [None, "measure", None]
    assert str(sides[1].cause) == "the server's log: disk is full"


def test_what_all_sides_wait_for_is_time_of_their_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(sides: Sequence[_Side], *_: Any) -> list[object]:
        time.sleep(0.3)  # of which clients are driven for 0.2 s
        return [object() for _ in sides]

    def conclude(*_: Any) -> list[StepRecord]:
        return [StepRecord(0, "measure", 0.0, 0.1, "finished")]

    monkeypatch.setattr(round_of_trials, "_measure_in_slices", measure)
    monkeypatch.setattr(round_of_trials, "_conclude", conclude)
    sides = [side("point", 0.0) for _ in range(2)]
    began = time.monotonic()
    assert _measure(sides, 0)
    took_s = time.monotonic() - began
    steps = [step for each in sides for step in each.steps]
    assert [step.duration_s for step in steps] == [0.1, 0.1]
    assert 0.3 <= sum(_end_s([step]) for step in steps) <= took_s + 1e-9


def servers(count: int) -> list[LiveServer]:
    return [
        replace(
            live(SimpleNamespace(family=MYSQL)),
            measured_connection=Connection(user="u", password="p", socket=Path(f"/run/{side}")),
        )
        for side in range(count)
    ]


def specs(workload: ResolvedWorkload, count: int) -> list[TrialSpec]:
    of_server = (ServerSpec(SERVER, SERVER),)  # type: ignore[arg-type]
    return [TrialSpec(f"test/{side}", of_server, workload) for side in range(count)]


def test_a_load_takes_turns_and_its_sessions_wait_for_them() -> None:
    workload = ResolvedWorkload(workloads.load("load-data"), {"rows": 1_000, "data_seed": 7})
    live_servers = servers(3)
    made = round_load_spec(specs(workload, 3), live_servers, None)
    first = live_servers[0]
    alone = phase_spec.load_spec(
        workload.measuring_phases, workload, first.dialect, first.measured_connection
    )
    assert [str(each.socket) for each in made.against] == ["/run/1", "/run/2"]
    assert made.session == (*alone.session, "SET net_read_timeout = 86400")
    for phase, one in zip(made.phases, alone.phases, strict=True):
        assert phase.limit_s == 3 * one.limit_s
        assert isinstance(phase, LoadData | Statement)
    load = made.phases[1]
    assert isinstance(load, LoadData)
    assert load.slice_rows


def test_clients_are_driven_for_the_time_of_each() -> None:
    workload = ResolvedWorkload(driving(), {"test": "point", "time_s": 2.0, "warmup_s": 1.0})
    made = round_load_spec(specs(workload, 2), servers(2), Path("/run/activity"))
    [drive] = made.phases
    assert isinstance(drive, Drive)
    assert (drive.time_s, drive.warmup_s) == (4.0, 2.0)
    assert drive.statement_activity == Path("/run/activity")
    assert drive.slices is not None
    assert drive.slices.transactions == 1
    assert "net_read_timeout" not in str(made.session)
