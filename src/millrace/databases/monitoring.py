"""Define the protocols by which collectors read a running server.

Monitoring sessions have no default database, which distinguishes their statements from the
workload's, and are opened before the clients start. Data that cannot be read raise Unavailable,
with a hint; a lost session raises DatabaseError.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

from millrace.databases.client import DatabaseClient, Row, Session
from millrace.databases.deltas import Number
from millrace.errors import Unavailable
from millrace.model import observations

# Kinds of threads, or of processes if each process serves one session.
CONNECTION = "connection"
POOL = "pool"
OBSERVER = "observer"
BACKGROUND = "background"
APPLIER = "applier"  # applies the changes of a source
COORDINATOR = "coordinator"  # the same, or lets appliers do it
MAIN = "main"


class ThreadRoleQuery(Protocol):
    """A repeatable query for the kinds of a server's threads, by one or two short statements.

    ``reports_sessions``: the server reported the threads of all its sessions. ``has_pool``:
    sessions share a pool of threads.
    """

    reports_sessions: bool
    has_pool: bool

    def kinds(self) -> dict[int, str]:
        """Return the kinds of the current threads, if known, by operating system thread id."""


@dataclass(frozen=True)
class ServerTotals:
    """The waits, statements and stages of a server between two readings, longest first."""

    waits: observations.Waits
    digests: Sequence[observations.Digest]
    stages: Sequence[observations.TimedEvent]
    missing: Sequence[Unavailable] = ()


class WaitStatistics(Protocol):
    """The server's own totals of waits, statements and stages."""

    def read(self) -> object:
        """Read the current totals, within milliseconds."""

    def between(self, before: Any, after: Any) -> ServerTotals:
        """Return the increase between two readings."""


@dataclass(frozen=True)
class CounterDeltas:
    """Increases of status variables and engine metrics, and the final values of gauges."""

    deltas: Mapping[str, Number]
    gauges: Mapping[str, Number]
    metrics: Mapping[str, Number]
    metric_gauges: Mapping[str, Number]


@dataclass(frozen=True)
class StatusDifference:
    """The difference between two readings of a server's counters."""

    deltas: CounterDeltas
    missing: Sequence[Unavailable] = ()


class StatusCounters(Protocol):
    """The server's status variables and metrics."""

    def read(self, others: Sequence[Session], *, at_end: bool = False) -> object:
        """Read the current counters, within milliseconds; ``others`` are millrace's other sessions.

        ``at_end`` is true for the second of two readings that are compared.
        """

    def between(self, before: Any, after: Any) -> StatusDifference:
        """Return the increases between two readings, without those of millrace's sessions."""


class Explainer(Protocol):
    """A query for the plans of statements, in the syntax of one version."""

    def explain(self, session: Session, sql: str) -> observations.QueryPlan:
        """Return the plan of a statement, or the reason why there is none. Never raise."""


@dataclass(frozen=True)
class ThreadNames:
    """Rules that identify a thread's purpose by its name or main function.

    ``own``: patterns for the name that a thread sets itself; the first match wins. ``functions``:
    purpose by the thread's main function. A thread that runs one of ``session_functions`` serves a
    client, and calls one of ``command_functions`` for each command. ``hint`` tells the user how to
    get more threads identified.
    """

    own: tuple[tuple[re.Pattern[str], str], ...]
    functions: Mapping[str, str]
    session_functions: frozenset[str] = frozenset()
    command_functions: frozenset[str] = frozenset()
    hint: str | None = None


@dataclass(frozen=True)
class FileKinds:
    """The kinds of a server's files.

    ``patterns`` match a file's base name; the first match wins. Commits wait for the kinds in
    ``commit_logs``.
    """

    patterns: tuple[tuple[re.Pattern[str], str], ...] = ()
    commit_logs: frozenset[str] = frozenset()

    def kind(self, path: str) -> str:
        """Return the kind of a file, from its path or its link in /proc."""
        name = PurePosixPath(path.removesuffix(" (deleted)")).name
        return next(
            (kind for pattern, kind in self.patterns if pattern.fullmatch(name)), "other file"
        )


class Monitoring(Protocol):
    """The queries of the collectors."""

    @property
    def threads(self) -> ThreadNames: ...

    def thread_roles(self, session: Session) -> ThreadRoleQuery:
        """Find out which kinds of threads this server can report."""

    def wait_statistics(self, session: Session, database: str) -> WaitStatistics:
        """Find out which totals this server has for the sessions in ``database``."""

    def status_counters(self, session: Session, database: str) -> StatusCounters:
        """Find out which counters this server has."""

    def neutral_counters(self, grown: Mapping[str, float]) -> observations.Counters:
        """Return the increases of counters under names that all families share."""

    def engine_status(self, session: Session) -> Mapping[str, int | bool]:
        """Return figures from the storage engine's status report; empty if there are none.

        The report contains statements of other sessions, with their values: never return any of
        them.
        """

    def process_list(self, session: Session, database: str) -> Sequence[Row]:
        """Return at most 100 sessions, working ones first.

        Statements are included only for sessions in ``database``.
        """

    def sessions_in(self, session: Session, database: str) -> int:
        """Return the number of other sessions in a database, including those about to end."""

    def explainer(self, version: str) -> Explainer:
        """Return the explainer for a version."""

    def plan_steps(self, rows: Sequence[observations.PlanRow]) -> Sequence[observations.PlanStep]:
        """Return the steps of a plan's rows, in terms that all versions share."""

    def file_kinds(self, client: DatabaseClient) -> FileKinds:
        """Return the kinds of the server's files, including its configured log names."""
