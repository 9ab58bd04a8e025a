"""Open sessions with fake servers, and read their counters for collectors."""

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millrace.databases.client import Address, DatabaseClient, Row, Session
from millrace.databases.monitoring import (
    CounterDeltas,
    FileKinds,
    ServerTotals,
    StatusDifference,
    ThreadNames,
)
from millrace.errors import DatabaseError
from millrace.host import listener
from millrace.model.observations import Counters, PlanRow, PlanStep, QueryPlan, TimedEvent, Waits

_LIMIT_S = 5


class FakeSession:
    """A session with a fake server."""

    id = 1

    def __init__(self, path: Path, limit_s: float | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(limit_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise DatabaseError(str(error), kind="unreachable") from error
        self._lines = self._socket.makefile("rw", encoding="utf-8")

    @property
    def is_open(self) -> bool:
        return not self._lines.closed

    @property
    def peer_pid(self) -> int:
        return listener.peer_pid(self._socket)

    def ask(self, do: str) -> Any:
        """Return the server's answer."""
        try:
            self._lines.write(json.dumps({"do": do}) + "\n")
            self._lines.flush()
            return json.loads(self._lines.readline())
        except (OSError, ValueError) as error:
            raise DatabaseError(str(error), kind="lost") from error

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        raise DatabaseError(f"a fake server knows no SQL: {sql} {values or ''}")

    def rows(self, sql: str) -> list[Row]:
        raise DatabaseError(f"a fake server knows no SQL: {sql}")

    def columns(self, sql: str) -> tuple[str, ...]:
        raise DatabaseError(f"a fake server knows no SQL: {sql}")

    def literal(self, text: str) -> str:
        return repr(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()


def connect(
    address: Address, database: str | None, limit_s: float | None, *, as_text: bool = False
) -> FakeSession:
    """Open a session with a fake server."""
    del database  # a fake server has none
    assert address.socket is not None
    assert not as_text  # no statements are sent
    return FakeSession(address.socket, limit_s)


def ask(client: DatabaseClient, do: str) -> Any:
    """Return the server's answer, in a session of its own."""
    with contextlib.closing(client.connect(limit_s=_LIMIT_S)) as session:
        return ask_in(session, do)


def ask_in(session: Session, do: str) -> Any:
    """Return the server's answer."""
    assert isinstance(session, FakeSession)
    return session.ask(do)


class _ThreadRoleQuery:
    reports_sessions = False
    has_pool = False

    def kinds(self) -> dict[int, str]:
        return {}


class _WaitStatistics:
    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self) -> Mapping[str, Sequence[float]]:
        return dict(ask_in(self._session, "counters")["waits"])

    def between(
        self, before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
    ) -> ServerTotals:
        events = []
        for name, (count, wait_s) in after.items():
            earlier = before.get(name, (0, 0.0))
            events.append(
                TimedEvent(name=name, count=int(count - earlier[0]), wait_s=wait_s - earlier[1])
            )
        return ServerTotals(Waits(enabled=True, why=None, events=tuple(events)), (), ())


class _StatusCounters:
    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, others: Sequence[Session], *, at_end: bool = False) -> Mapping[str, float]:
        return dict(ask_in(self._session, "counters")["counts"])

    def between(self, before: Mapping[str, float], after: Mapping[str, float]) -> StatusDifference:
        deltas = {name: value - before[name] for name, value in after.items()}
        return StatusDifference(CounterDeltas(deltas, {}, {}, {}))


class _Explainer:
    def explain(self, session: Session, sql: str) -> QueryPlan:
        return QueryPlan(rows=({"table": "t", "rows": 1},), error=None)


class FakeMonitoring:
    """The monitoring of fake servers, which add up waits and operations.

    It implements ``databases.monitoring.Monitoring``.
    """

    threads = ThreadNames(own=(), functions={})

    def thread_roles(self, session: Session) -> _ThreadRoleQuery:
        return _ThreadRoleQuery()

    def wait_statistics(self, session: Session, database: str) -> _WaitStatistics:
        return _WaitStatistics(session)

    def status_counters(self, session: Session, database: str) -> _StatusCounters:
        return _StatusCounters(session)

    def neutral_counters(self, grown: Mapping[str, float]) -> Counters:
        return Counters()

    def engine_status(self, session: Session) -> Mapping[str, int | bool]:
        return {}

    def process_list(self, session: Session, database: str) -> Sequence[Row]:
        return []

    def sessions_in(self, session: Session, database: str) -> int:
        return 0

    def explainer(self, version: str) -> _Explainer:
        return _Explainer()

    def plan_steps(self, rows: Sequence[PlanRow]) -> Sequence[PlanStep]:
        return [PlanStep(role="query", table=str(row["table"]), access="ALL") for row in rows]

    def file_kinds(self, client: DatabaseClient) -> FileKinds:
        return FileKinds()
