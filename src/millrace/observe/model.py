"""What an observer is given, does and tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from millrace.errors import MillraceError
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import Instance


class Unavailable(MillraceError):
    """An observer cannot work here: the message says what is missing, ``remedy`` what to do."""


@dataclass(frozen=True)
class Target:
    """The server that is observed while clients are driven.

    ``pid`` and ``data_dir`` are None where the server's process and files cannot be seen.
    ``statements`` are the workload's statements by name, with real values, to be explained;
    ``limit_s`` bounds each question to the server.
    """

    instance: Instance | AttachedInstance
    pid: int | None
    data_dir: Path | None
    database: str
    statements: Mapping[str, str]
    limit_s: float


class Observer(Protocol):
    """One for each trial."""

    def begin(self) -> None:
        """The measured part begins; takes milliseconds."""

    def end(self) -> None:
        """The measured part has ended, clients are still connected; takes milliseconds."""

    def told(self) -> Mapping[str, Any]:
        """What was seen, as sections of the document by name; afterwards, may take its time."""

    def close(self) -> None:
        """Leave nothing behind; called always, also after failures."""
