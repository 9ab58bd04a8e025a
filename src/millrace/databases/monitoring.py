"""What a family's servers tell about themselves while they work: the protocols of the collectors.

Sessions for monitoring have no database of their own, so that their statements are told from the
workload's, and are opened before clients are driven. What cannot be read raises Unavailable, with
what to do about it; a lost session raises DatabaseError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millrace.databases.client import ServerClient, Session

# Kinds of threads, or of processes where each serves one session.
CONNECTION = "connection"
POOL = "pool"
OBSERVER = "observer"
BACKGROUND = "background"
MAIN = "main"

Sections = dict[str, Any]
"""Sections of the document of what was observed, by name. The key ``missing`` holds parts that
could not be had, each with ``what`` and ``hint``."""


class ThreadRoles(Protocol):
    """Tells the kinds of a server's threads, as often as asked, by one short query or two.

    ``tells_sessions`` says whether it told the threads of all its sessions, ``has_pool`` whether
    sessions share a pool of threads.
    """

    tells_sessions: bool
    has_pool: bool

    def kinds(self) -> dict[int, str]:
        """Return the kinds of threads now, by the operating system's ids, as far as the server
        tells."""


class WaitStatistics(Protocol):
    """The server's own sums of waits, statements and stages."""

    def read(self) -> object:
        """Read the sums now, in milliseconds."""

    def between(self, before: Any, after: Any) -> Sections:
        """Return the sections ``waits``, ``digests`` and ``stages`` between two readings."""


class StatusCounters(Protocol):
    """The server's status variables and metrics. ``own`` of ``between`` counts how often
    millrace asked for the ``engine_status`` and the ``process_list`` in between."""

    def read(self) -> object:
        """Read the counters now, in milliseconds."""

    def between(self, before: Any, after: Any, own: Mapping[str, int]) -> Sections:
        """Return the section ``status`` between two readings."""


class Explainer(Protocol):
    """Explains statements in the way of one version."""

    def explain(self, session: Session, sql: str) -> Mapping[str, Any]:
        """Return the plan (``rows``), or why there is none (``error``). Raises nothing."""


@dataclass(frozen=True)
class ThreadNames:
    """What a thread is for, by the name that it gives itself (patterns, the first match counts),
    and by the functions that it spends its life in. ``hint`` says what makes more of them known."""

    own: tuple[tuple[re.Pattern[str], str], ...]
    functions: Mapping[str, str]
    hint: str | None = None


class Monitoring(Protocol):
    """The inquiries of the collectors."""

    @property
    def threads(self) -> ThreadNames: ...

    def thread_roles(self, session: Session) -> ThreadRoles:
        """Find out what this server can tell of its threads."""

    def wait_statistics(self, session: Session, database: str) -> WaitStatistics:
        """Find out what this server sums up of the sessions in ``database``."""

    def status_counters(self, session: Session, database: str) -> StatusCounters:
        """Find out what this server counts."""

    def engine_status(self, session: Session) -> Sequence[str]:
        """Return what the storage engine says of itself, one text or none."""

    def process_list(self, session: Session, database: str) -> list[dict[str, Any]]:
        """Return the sessions, working ones first, not more than 100; statements only of those in
        ``database``."""

    def explainer(self, version: str) -> Explainer:
        """Return how a version explains."""

    def change_logs(self, client: ServerClient) -> Sequence[str]:
        """Return the names of the files of the server's log of changes, none where it keeps none.
        Raises TrialFailed."""
