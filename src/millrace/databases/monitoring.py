"""Define the protocols by which collectors read a working server.

Monitoring sessions have no database of their own, which distinguishes their statements from the
workload's, and are opened before clients are driven. Data that cannot be read raise Unavailable,
with a hint; a lost session raises DatabaseError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millrace.databases.client import ServerClient, Session

# Kinds of threads; or of processes, where each process serves one session.
CONNECTION = "connection"
POOL = "pool"
OBSERVER = "observer"
BACKGROUND = "background"
MAIN = "main"

Sections = dict[str, Any]
"""Sections of the document of observations, by name. The key ``missing`` lists the parts that could
not be read, each with ``what`` and ``hint``."""


class ThreadRoles(Protocol):
    """A repeatable query for the kinds of a server's threads, by one or two short statements.

    ``tells_sessions`` says whether the server reported the threads of all its sessions,
    ``has_pool`` whether sessions share a pool of threads.
    """

    tells_sessions: bool
    has_pool: bool

    def kinds(self) -> dict[int, str]:
        """Return the current kinds of threads, where known, by the operating system's ids."""


class WaitStatistics(Protocol):
    """The server's own totals of waits, statements and stages."""

    def read(self) -> object:
        """Read the totals now, within milliseconds."""

    def between(self, before: Any, after: Any) -> Sections:
        """Return the sections ``waits``, ``digests`` and ``stages`` between two readings."""


class StatusCounters(Protocol):
    """The server's status variables and metrics.

    ``own`` of ``between`` counts how often millrace queried the ``engine_status`` and the
    ``process_list`` between the two readings.
    """

    def read(self) -> object:
        """Read the counters now, within milliseconds."""

    def between(self, before: Any, after: Any, own: Mapping[str, int]) -> Sections:
        """Return the section ``status`` between two readings."""


class Explainer(Protocol):
    """A query for the plans of statements in the syntax of one version."""

    def explain(self, session: Session, sql: str) -> Mapping[str, Any]:
        """Return the plan (``rows``), or the reason why there is none (``error``). Never raise."""


@dataclass(frozen=True)
class ThreadNames:
    """The purposes of threads, by their names and functions.

    ``own`` are patterns for the name that a thread sets itself; the first match counts.
    ``functions`` map the function in which a thread spends its life. ``hint`` says how to make more
    threads known.
    """

    own: tuple[tuple[re.Pattern[str], str], ...]
    functions: Mapping[str, str]
    hint: str | None = None


class Monitoring(Protocol):
    """The queries of the collectors."""

    @property
    def threads(self) -> ThreadNames: ...

    def thread_roles(self, session: Session) -> ThreadRoles:
        """Find out which of its threads' kinds this server can report."""

    def wait_statistics(self, session: Session, database: str) -> WaitStatistics:
        """Find out which totals this server keeps of the sessions in ``database``."""

    def status_counters(self, session: Session, database: str) -> StatusCounters:
        """Find out which counters this server keeps."""

    def engine_status(self, session: Session) -> Sequence[str]:
        """Return the storage engine's report on itself: one text or none."""

    def process_list(self, session: Session, database: str) -> list[dict[str, Any]]:
        """Return at most 100 sessions, working ones first.

        Statements are included only for sessions in ``database``.
        """

    def explainer(self, version: str) -> Explainer:
        """Return the explainer for a version."""

    def change_logs(self, client: ServerClient) -> Sequence[str]:
        """Return the names of the files of the server's log of changes; none where it keeps none.

        Raise TrialFailed.
        """
