"""Test the load generator's specification of a round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from millrace import databases, workloads
from millrace.loadgen.spec import Connection, Drive, LoadData, Statement
from millrace.trial import phase_spec, round_spec
from millrace.trial.hooks import LiveServer
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.support.small_workload import driving
from tests.unit.trial.measuring import live

MYSQL = databases.get("mysql")
SERVER = SimpleNamespace()  # nothing asks for it


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
    made = round_spec.load_spec(specs(workload, 3), live_servers, None)
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
    made = round_spec.load_spec(specs(workload, 2), servers(2), Path("/run/activity"))
    [drive] = made.phases
    assert isinstance(drive, Drive)
    assert (drive.time_s, drive.warmup_s) == (4.0, 2.0)
    assert drive.statement_activity == Path("/run/activity")
    assert drive.slices is not None
    assert drive.slices.transactions == 1
    assert "net_read_timeout" not in str(made.session)
