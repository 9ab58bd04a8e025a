"""Append to a run's event file: JSON lines that other programs can follow during a run."""

import json
import os
from pathlib import Path
from typing import Self

from millrace.model.events import Event, to_json
from millrace.store import private
from millrace.store.artefacts import write_problem


class EventLog:
    """A context manager that appends events to a file; each event is one line and one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            private.make_directory(path.parent)
            self._file = path.open("ab", buffering=0)
            if not _ends_with_newline(path):  # a writer was killed in the middle of a line
                self._file.write(b"\n")
        except OSError as error:
            raise write_problem(path, error) from error

    def append(self, event: Event) -> None:
        """Append one event; other processes can read it when this returns."""
        line = json.dumps(to_json(event), separators=(",", ":"), ensure_ascii=True) + "\n"
        try:
            self._file.write(line.encode())
        except OSError as error:
            raise write_problem(self.path, error) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"
