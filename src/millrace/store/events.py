"""Append to and read the event file of a run: JSON lines that the runner writes as it measures.

Progress displays read this file, so that nothing is written to the store during a measurement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

from millrace import safe_json
from millrace.model.events import Event, from_json, to_json
from millrace.store import private
from millrace.store.artefacts import write_problem

_OF_AN_EVENT = safe_json.Limits(text_chars=1 << 20, largest=2**64 - 1)  # counters of servers


class EventLog:
    """A log that appends events to a file, each as one line in one write; a context manager."""

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
        """Append one event; it can be read by other processes when this returns."""
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


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a file, oldest first; none when there is no file.

    Skips a line truncated by a crash, the line being written, and a line that is not an event or
    exceeds the limits of an event.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in _whole_lines(file):
            try:
                event = from_json(safe_json.parse_object(line, _OF_AN_EVENT))
            except safe_json.JsonRefused:
                continue
            if event is not None:
                yield event


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield each complete line, with at most the bytes that an event may have."""
    is_begin = True
    while piece := file.readline(_OF_AN_EVENT.size_bytes):
        is_end = piece.endswith(b"\n")
        if is_begin and is_end:
            yield piece
        is_begin = is_end
