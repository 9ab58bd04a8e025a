"""Test the queries for the server's counters, and the stored part of the answers."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from millrace import databases
from millrace.databases.client import QUERY_LIMIT_S
from millrace.errors import DatabaseError, TrialFailed
from millrace.trial import measurement_counters
from millrace.trial.hooks import MeasurementContext, MeasurementHook
from tests.support.made_events import interval, mark
from tests.support.measuring import BEGIN, END, RESULT, live, measured, measurement

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
    (hook,) = measurement_counters.hooks(measuring, ExitStack())
    return measuring, hook


def test_the_session_has_a_time_limit_and_is_closed() -> None:
    server = Server(Session())
    with ExitStack() as opened:
        (_,) = measurement_counters.hooks(measurement(live(server)), opened)
        assert server.limits == [QUERY_LIMIT_S]
        assert server.session.asked == []
    assert server.session.asked == ["close"]


def test_each_server_has_counters_of_its_own() -> None:
    servers = [live(Server(Session()), role) for role in ("source", "replica")]
    measuring = measurement(*servers)
    for hook in measurement_counters.hooks(measuring, ExitStack()):
        hook.on_event(BEGIN)
        hook.on_event(END)
        hook.contribute(RESULT)
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
    hook.on_event(BEGIN)
    hook.on_event(END)
    hook.contribute(RESULT)
    hook.verify(RESULT)
    state = measuring.outputs.instances["server"].facts.state
    assert state is not None
    assert state.end is not None
    assert "history" not in state.end
    assert state.end["pool_pages"] == 1000
    assert measured(measuring)


def test_a_server_that_is_gone_has_no_counters() -> None:
    measuring, hook = counters(Session("SELECT", "SHOW"))
    hook.on_event(BEGIN)
    hook.on_event(END)
    hook.contribute(RESULT)
    assert measuring.outputs.instances["server"].facts.state is None
    with pytest.raises(TrialFailed, match="could not be read"):
        hook.verify(RESULT)
