"""Share in memory which statement each client of the load generator executes.

The board is a file in memory without a name: it ends with this process, and nothing of it ever
reaches a disk. The load generator fills it when its clients have connected. The form is described
in ``crates/engine/src/statement_activity.rs``.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_MAGIC, _VERSION = b"millrace", 1
_HEADER = struct.Struct("=8sIII")
_SLOT = struct.Struct("=IIQ")
_STATEMENT = struct.Struct(
    "=4xI"
)  # of a slot: 0 for no statement, else the index of its name plus 1
_HEADER_BYTES = _SLOT_BYTES = 64
_UNIX = 1

By = Literal["inode", "port"]


@dataclass(frozen=True)
class Client:
    """A client's end of a connection, by its slot: the inode of a UNIX socket, or a port of TCP."""

    slot: int
    by: By
    socket: int


@dataclass(frozen=True)
class Board:
    """A board, by the path under which processes of the same user open it."""

    path: Path

    def clients(self) -> tuple[Client, ...]:
        """Return the clients of the board; none before they have connected."""
        told = self._told()
        if told is None:
            return ()
        text, slots, _ = told
        found = []
        for slot in range(slots):
            kind, _, socket = _SLOT.unpack_from(text, _HEADER_BYTES + slot * _SLOT_BYTES)
            found.append(Client(slot, "inode" if kind == _UNIX else "port", socket))
        return tuple(found)

    def statements(self) -> tuple[str, ...]:
        """Return the names of the clients' statements; none before the clients have connected."""
        told = self._told()
        if told is None:
            return ()
        text, slots, size = told
        begin = _HEADER_BYTES + slots * _SLOT_BYTES
        *names, _rollback = json.loads(
            text[begin : begin + size]
        )  # no measurement counts the rollback
        return tuple(names)

    @contextlib.contextmanager
    def shown(self) -> Iterator[Shown]:
        """Map the board into memory for the block.

        Raise OSError or ValueError where no load generator has filled it.
        """
        names = self.statements()
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            yield Shown(text, names)

    def _told(self) -> tuple[bytes, int, int] | None:
        """Return the bytes of the board, the number of its slots and the length of its names.

        Return None where it is not complete.
        """
        text = self.path.read_bytes()
        if len(text) < _HEADER_BYTES:
            return None
        magic, version, slots, size = _HEADER.unpack_from(text)
        known = (magic, version) == (_MAGIC, _VERSION)
        is_whole = len(text) >= _HEADER_BYTES + slots * _SLOT_BYTES + size
        return (text, slots, size) if known and is_whole else None


@dataclass(frozen=True)
class Shown:
    """The current bytes of a board, and the names of the clients' statements."""

    text: mmap.mmap
    names: tuple[str, ...]

    def under_way(self, slot: int) -> str | None:
        """Return the measured statement that a client executes; None where there is none."""
        (number,) = _STATEMENT.unpack_from(self.text, _HEADER_BYTES + slot * _SLOT_BYTES)
        return self.names[number - 1] if 0 < number <= len(self.names) else None


@contextlib.contextmanager
def made() -> Iterator[Board]:
    """Create an empty board for the block."""
    descriptor = os.memfd_create("millrace-board")
    try:
        yield Board(Path(f"/proc/{os.getpid()}/fd/{descriptor}"))
    finally:
        os.close(descriptor)
