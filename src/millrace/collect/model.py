"""What an observer is: something that looks at a server at the two ends of the measured part.

What it found is plain data, a section or more of the document that ``collecting`` makes of all.
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
"""Parts that an observer could not see, each with ``what`` and ``remedy``."""


@dataclass(frozen=True)
class Target:
    """The server of a trial.

    ``pid`` and ``data_dir`` are None where they cannot be seen from here. ``statements`` are those
    of the test by name, with values, as a client would send them. ``limit_s`` is for one question.
    ``board`` is where clients show their statements, None where they do not; ``connections`` is how
    many talk to the server at a time. ``own_pid`` is the millrace whose processes, all that it
    started, do not count as others of the host.
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
    """One observer of one trial. All but ``close`` may raise Unavailable, OSError or a
    DatabaseError: it is then left out, and the trial goes on."""

    def begin(self) -> None:
        """The measured part begins: look, in milliseconds."""

    def end(self) -> None:
        """The measured part is over, the clients are still connected: look again."""

    def result(self) -> Mapping[str, Any]:
        """What was found, by section of the document; may take its time. The key ``missing`` holds
        parts that could not be had, a list of ``what`` and ``remedy``."""

    def close(self) -> None:
        """Leave nothing behind, whatever happened before; may be called twice."""


@runtime_checkable
class ConnectionCollector(Protocol):
    """An observer of driven clients that looks before they begin."""

    def connected(self) -> None:
        """All clients have connected, and wait for a moment before they begin."""


@runtime_checkable
class RepeatableCollector(Protocol):
    """An observer that adds to what it saw when the measured part comes again."""

    @property
    def wants_more(self) -> bool:
        """Whether it has seen too little, and another time would help."""
