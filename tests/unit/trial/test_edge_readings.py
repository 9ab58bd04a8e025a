"""Test what hooks read at both edges of the measured part: clocks, processes and counters."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import databases
from millrace.databases.client import QUERY_LIMIT_S
from millrace.errors import DatabaseError, TrialFailed
from millrace.host.cpu_clock import CpuTime
from millrace.model import measurements as names
from millrace.trial import edge_readings
from millrace.trial.edge_readings import HostTime, Moment, between, moment
from millrace.trial.hooks import MeasurementContext, MeasurementHook, OpenHooks
from tests.support.made_events import interval, mark
from tests.support.measuring import BEGIN, END, RESULT, live, measured, measurement, pass_edges

FIRST = Moment(100.0, 200.0, 1_700_000_000.0, (10, 1_000))
STAT = """\
cpu  30 0 0 60 0 0 0 15 0 0
cpu0 10 0 0 20 0 0 0 5 0 0
cpu1 20 0 0 40 0 0 0 10 0 0
intr 1
"""


def after(
    seconds: float, *, slept_s: float = 0.0, step_s: float = 0.0, steal: tuple[int, int] = (0, 100)
) -> Moment:
    assert FIRST.steal is not None
    return Moment(
        FIRST.monotonic_s + seconds,
        FIRST.boot_s + seconds + slept_s,
        FIRST.wall_s + seconds + slept_s + step_s,
        (FIRST.steal[0] + steal[0], FIRST.steal[1] + steal[1]),
    )


def test_a_part_in_which_nothing_happened() -> None:
    assert between(FIRST, after(30.0)).to_json() == pytest.approx(
        {"measured_s": 30.0, "suspended_s": 0.0, "clock_step_s": 0.0, "steal_share": 0.0}
    )


def test_sleep_steps_and_steal_are_distinguished() -> None:
    found = between(FIRST, after(30.0, slept_s=4.0, step_s=-2.5, steal=(25, 100)))
    assert found.to_json() == pytest.approx(
        {"measured_s": 30.0, "suspended_s": 4.0, "clock_step_s": -2.5, "steal_share": 0.25}
    )


def test_steal_that_the_kernel_does_not_count_is_unknown() -> None:
    assert between(replace(FIRST, steal=None), after(3.0)).steal_share is None
    assert between(FIRST, after(3.0, steal=(0, 0))).steal_share is None
    assert between(FIRST, after(3.0, steal=(-1, 100))).steal_share == 0.0


def test_steal_is_of_the_cpus_of_the_trial(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    assert moment([1], stat).steal == (10, 70)
    assert moment([0, 1], stat).steal == (15, 105)
    assert moment([2], stat).steal is None
    stat.write_text("cpu0 1 2 3 4\n")
    assert moment([0], stat).steal is None
    assert moment([0], tmp_path / "missing").steal is None


def test_the_moments_are_those_of_the_measured_part(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([FIRST, after(30.0, slept_s=1.0)])
    monkeypatch.setattr(edge_readings, "moment", lambda _cpus: next(moments))
    measuring = measurement()
    hook = HostTime(measuring)
    hook.on_event(mark("connected"))
    hook.on_event(BEGIN)
    hook.contribute(RESULT)
    facts = measuring.outputs.instances["server"].facts
    assert facts.host_time is None, "the end did not come"
    hook.on_event(interval())
    hook.on_event(END)
    hook.contribute(RESULT)
    found = measuring.outputs.instances["server"].facts.host_time
    assert found is not None
    assert found.suspended_s == pytest.approx(1.0)


def test_this_hosts_clocks_are_read() -> None:
    before = time.monotonic()
    now = moment(os.sched_getaffinity(0))
    assert before <= now.monotonic_s <= time.monotonic()
    assert now.boot_s >= before


class Processes:
    """Processes that use the next figures each time that someone asks, until they are gone."""

    def __init__(self, *figures: Any) -> None:
        self._figures = list(figures)

    def _next(self) -> Any:
        if not self._figures:
            raise FileNotFoundError("no such process")
        return self._figures.pop(0)

    cpu_time = read_bytes = _next


def found(
    monkeypatch: pytest.MonkeyPatch, hooks: OpenHooks, processes: Processes | None
) -> dict[str, float]:
    """Return the measurements of a server with these processes."""
    monkeypatch.setattr(edge_readings, "processes_of", lambda _client: processes)
    measuring = measurement(live(None))
    for hook in hooks(measuring, ExitStack()):
        pass_edges(hook)
    return measured(measuring)


def test_cpu_time_is_that_between_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(CpuTime(1.0, 2.0, 3_000_000_000), CpuTime(2.0, 2.5, 4_500_000_000))
    values = found(monkeypatch, edge_readings.cpu_hooks, processes)
    assert values[names.SERVER_USER_S] == pytest.approx(1.0)
    assert values[names.SERVER_SYSTEM_S] == pytest.approx(0.5)


def test_reads_are_those_between_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    values = found(monkeypatch, edge_readings.read_hooks, Processes(100, 4_196))
    assert values == {names.SERVER_READ_BYTES: 4_096}


@pytest.mark.parametrize("processes", [None, Processes(), Processes(100)])
def test_servers_that_are_hidden_or_gone_have_no_figures(
    monkeypatch: pytest.MonkeyPatch, processes: Processes | None
) -> None:
    assert found(monkeypatch, edge_readings.read_hooks, processes) == {}


POOL = {
    "Innodb_buffer_pool_dump_status": "not started",
    "Innodb_buffer_pool_pages_data": "600",
    "Innodb_buffer_pool_pages_free": "400",
    "Innodb_buffer_pool_pages_total": "1000",
    "Innodb_buffer_pool_read_ahead": "30",
    "Innodb_buffer_pool_read_requests": "9000",
    "Innodb_buffer_pool_reads": "70",
}
ENGINE = "Modified db pages  12\nHistory list length 3\nLog sequence number 500\n"


class Session:
    """A session that answers status and engine status.

    ``refuses`` are prefixes of refused statements."""

    def __init__(self, *refuses: str) -> None:
        self.asked: list[str] = []
        self._refuses = refuses

    def query(self, sql: str) -> Sequence[tuple[str, ...]]:
        self.asked.append(sql)
        if sql.startswith(self._refuses):
            raise DatabaseError("you need the PROCESS privilege", kind="forbidden", code="1227")
        engine = [("InnoDB", "", ENGINE)]
        return list(POOL.items()) if "global_status" in sql else engine

    is_open = True

    def close(self) -> None:
        self.asked.append("close")


class Server:
    """A client of a MySQL server, which opens the given session."""

    family = databases.get("mysql")
    is_managed = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self.limits: list[float | None] = []

    def connect(self, *, limit_s: float | None = None) -> Session:
        self.limits.append(limit_s)
        return self.session

    def rows(self, *_: object, **__: object) -> list[tuple[str, ...]]:
        raise TrialFailed("no further questions")

    query = rows


def counters(session: Session, **chosen: Any) -> tuple[MeasurementContext, MeasurementHook]:
    measuring = measurement(live(Server(session)), **chosen)
    (hook,) = edge_readings.counter_hooks(measuring, ExitStack())
    return measuring, hook


def test_the_session_has_a_time_limit_and_is_closed() -> None:
    server = Server(Session())
    with ExitStack() as opened:
        (_,) = edge_readings.counter_hooks(measurement(live(server)), opened)
        assert server.limits == [QUERY_LIMIT_S]
        assert server.session.asked == []
    assert server.session.asked == ["close"]


def test_each_server_has_counters_of_its_own() -> None:
    servers = [live(Server(Session()), role) for role in ("source", "replica")]
    measuring = measurement(*servers)
    for hook in edge_readings.counter_hooks(measuring, ExitStack()):
        pass_edges(hook)
    roles = [each.role for each in measuring.outputs.measurements]
    assert roles == ["source", "source", "replica", "replica"]


def test_counters_are_queried_twice_at_each_mark() -> None:
    session = Session()
    measuring, hook = counters(session, cache_mode="any")
    for event in (BEGIN, interval(), mark("connected"), END):
        hook.on_event(event)
    assert len(session.asked) == 4
    hook.contribute(RESULT)
    hook.verify(RESULT)
    facts = measuring.outputs.instances["server"].facts
    assert facts.state is not None
    assert facts.state.begin == facts.state.end == {
        "pool_pages": 1000, "pool_data_pages": 600, "pool_free_pages": 400,
        "pages_asked_for": 9000, "pages_fetched": 100, "dirty_pages": 12, "history": 3,
        "log_position": 500,
    }  # fmt: skip
    assert facts.state.since_begin_s is not None
    assert facts.state.since_begin_s >= 0
    assert facts.residency == "any"
    assert list(measured(measuring)) == ["buffer_pool_reads", "buffer_pool_read_requests"]


def test_a_server_that_does_not_show_its_engine_fails_no_trial() -> None:
    measuring, hook = counters(Session("SHOW ENGINE"), cache_mode="any")
    pass_edges(hook)
    hook.verify(RESULT)
    state = measuring.outputs.instances["server"].facts.state
    assert state is not None
    assert state.end is not None
    assert "history" not in state.end
    assert state.end["pool_pages"] == 1000
    assert measured(measuring)


def test_a_server_that_is_gone_has_no_counters() -> None:
    measuring, hook = counters(Session("SELECT", "SHOW"))
    pass_edges(hook)
    assert measuring.outputs.instances["server"].facts.state is None
    with pytest.raises(TrialFailed, match="could not be read"):
        hook.verify(RESULT)
