"""The event file of a run: JSON lines the runner appends while it measures.

Progress and watching read this file, so that nothing is written to the store during a measurement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millrace.store.artefacts import write_problem


class EventLog:
    """Appends events to a file, each as one line in one write; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            if not _ends_with_newline(path):  # a writer was killed in the middle of a line
                self._file.write(b"\n")
        except OSError as error:
            raise write_problem(path, error) from error

    def append(self, event: Mapping[str, Any]) -> None:
        """Append one event; it can be read by other processes when this returns."""
        line = json.dumps(event, separators=(",", ":"), ensure_ascii=True) + "\n"
        try:
            self._file.write(line.encode())
        except OSError as error:
            raise write_problem(self.path, error) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file, oldest first; none when there is no file.

    A line that was torn by a crash, and the one that is being written now, are passed over.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if line.endswith(b"\n") and isinstance(event, dict):
                yield event
