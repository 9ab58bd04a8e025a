"""Test the queries for the server's counters, and the stored part of the answers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, cast

import pytest

from millrace import databases
from millrace.databases.client import QUERY_LIMIT_S, ServerClient
from millrace.errors import DatabaseError, TrialFailed
from millrace.trial.measurement_counters import Counters, counters_of

STORAGE = databases.get("mysql").storage
BEGIN = {"type": "mark", "mark": "measure_started"}
END = {"type": "mark", "mark": "measure_ended"}
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
            raise DatabaseError("you need the PROCESS privilege", kind="forbidden", code=1227)
        engine = [("InnoDB", "", ENGINE)]
        return list(POOL.items()) if sql.startswith("SHOW GLOBAL STATUS") else engine


def counters(session: Session) -> Counters:
    return Counters(cast(Any, session), None, STORAGE)


def test_the_server_is_asked_with_a_limit_of_time() -> None:
    limits = []

    class Server:
        family = databases.get("mysql")

        def connect(self, *, limit_s: float | None = None) -> io.StringIO:
            limits.append(limit_s)
            return io.StringIO()  # it can be closed as a session can

    with counters_of(cast(ServerClient, Server())):
        pass
    assert limits == [QUERY_LIMIT_S]


def test_two_questions_are_asked_at_each_mark_and_none_in_between() -> None:
    session = Session()
    found = counters(session)
    for event in (BEGIN, {"type": "interval"}, {"type": "mark", "mark": "connected"}, END):
        found.see(event)
    assert len(session.asked) == 4
    state = found.state()
    assert state["begin"] == state["end"] == {
        "pool_pages": 1000, "pool_data_pages": 600, "pool_free_pages": 400,
        "pages_asked_for": 9000, "pages_fetched": 100, "dirty_pages": 12, "history": 3,
        "log_position": 500,
    }  # fmt: skip
    assert state["since_begin_s"] >= 0
    names = [each.name for each in found.measurements()]
    assert names == ["buffer_pool_reads", "buffer_pool_read_requests"]


def test_a_server_that_does_not_show_its_engine_fails_no_trial() -> None:
    found = counters(Session("SHOW ENGINE"))
    found.see(BEGIN)
    found.see(END)
    assert "history" not in found.state()["end"]
    assert found.state()["end"]["pool_pages"] == 1000
    assert list(found.measurements())


def test_a_server_that_is_gone_has_no_counters() -> None:
    found = counters(Session("SHOW GLOBAL STATUS"))
    found.see(BEGIN)
    found.see(END)
    assert found.state() == {}
    with pytest.raises(TrialFailed, match="could not be read"):
        list(found.measurements())
