"""The protocol of collectors, which observe a server at both ends of the measured part.

A collector's result is plain data: one or more sections of the document that ``collecting`` builds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from millrace.databases.client import ServerClient
from millrace.loadgen.statement_activity import Board

Missing = list[dict[str, str | None]]
"""Parts that a collector could not observe, each with ``what`` and ``remedy``."""


@dataclass(frozen=True)
class Target:
    """The server of a trial.

    ``pid`` and ``data_dir`` are None where this host does not show them. ``statements`` are the
    test's statements by name, with values as a client sends them. ``limit_s`` limits one query.
    ``board`` holds the statements that clients execute, None where clients do not publish them.
    ``connections`` is the number of clients that work at the same time. ``own_pid`` is the millrace
    process that started the trial; its descendants are not other processes of the host.
    """

    instance: ServerClient
    pid: int | None
    data_dir: Path | None
    database: str
    statements: Mapping[str, str]
    limit_s: float
    board: Board | None = None
    connections: int = 1
    own_pid: int = field(default_factory=os.getpid)


class Collector(Protocol):
    """A collector of one trial.

    All methods but ``close`` may raise Unavailable, OSError or a DatabaseError: the trial then goes
    on without the collector.
    """

    def begin(self) -> None:
        """Look at the server as the measured part begins, within milliseconds."""

    def end(self) -> None:
        """Look again after the measured part, while the clients are still connected."""

    def result(self) -> Mapping[str, Any]:
        """Return the observations by section of the document; this may take time.

        The key ``missing`` holds the parts that could not be observed, a list of ``what`` and
        ``remedy``.
        """

    def close(self) -> None:
        """Release everything, whatever happened before; may run twice."""


@runtime_checkable
class ConnectionCollector(Protocol):
    """A collector that looks at connected clients before they begin to work."""

    def connected(self) -> None:
        """Look while all clients are connected and wait for a moment before they begin."""


@runtime_checkable
class RepeatableCollector(Protocol):
    """A collector that adds to its observations when the measured part is repeated."""

    @property
    def wants_more(self) -> bool:
        """Return whether it observed too little and a repetition would help."""
