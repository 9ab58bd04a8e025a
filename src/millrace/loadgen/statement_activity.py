"""Share in memory which statement each client of the load generator executes.

The file is anonymous memory (memfd): it is never written to disk, and is removed with this process.
The load generator initialises it when its clients have connected.
``crates/engine/src/statement_activity.rs`` defines its format.
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
# The statement of a slot: 0 for none, else the index of its name plus 1.
_STATEMENT = struct.Struct("=4xI")
_HEADER_BYTES = _SLOT_BYTES = 64
_UNIX = 1

By = Literal["inode", "port"]


@dataclass(frozen=True)
class Client:
    """A client's end of a connection: the inode of its UNIX socket, or its TCP port."""

    slot: int
    by: By
    socket: int


@dataclass(frozen=True)
class MappedActivity:
    """The file mapped into memory, and the names of the clients' statements."""

    content: mmap.mmap
    names: tuple[str, ...]

    def statement_of(self, slot: int) -> str | None:
        """Return the statement that a client executes now; None if it executes none."""
        (number,) = _STATEMENT.unpack_from(self.content, _HEADER_BYTES + slot * _SLOT_BYTES)
        return self.names[number - 1] if 0 < number <= len(self.names) else None


@dataclass(frozen=True)
class StatementActivity:
    """The file; processes of the same user can open its ``path``."""

    path: Path

    @classmethod
    @contextlib.contextmanager
    def create(cls) -> Iterator[StatementActivity]:
        """Create an empty file that exists until the block ends."""
        descriptor = os.memfd_create("millrace-statement-activity")
        try:
            yield cls(Path(f"/proc/{os.getpid()}/fd/{descriptor}"))
        finally:
            os.close(descriptor)

    def clients(self) -> tuple[Client, ...]:
        """Return the clients; none before they have connected."""
        content, slots, _ = self._read() or (b"", 0, 0)
        found = []
        for slot in range(slots):
            kind, _, socket = _SLOT.unpack_from(content, _HEADER_BYTES + slot * _SLOT_BYTES)
            found.append(Client(slot, "inode" if kind == _UNIX else "port", socket))
        return tuple(found)

    def statements(self) -> tuple[str, ...]:
        """Return the names of the clients' statements; none before the clients have connected."""
        read = self._read()
        if read is None:
            return ()
        content, slots, size = read
        begin = _HEADER_BYTES + slots * _SLOT_BYTES
        *names, _rollback = json.loads(content[begin : begin + size])  # nothing counts a rollback
        return tuple(names)

    @contextlib.contextmanager
    def mapped(self) -> Iterator[MappedActivity]:
        """Map the file into memory. Raise OSError or ValueError if it is still empty."""
        names = self.statements()
        with (
            self.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            yield MappedActivity(content, names)

    def _read(self) -> tuple[bytes, int, int] | None:
        """Return the content, number of slots and length of names; None while incomplete."""
        content = self.path.read_bytes()
        if len(content) < _HEADER_BYTES:
            return None
        magic, version, slots, size = _HEADER.unpack_from(content)
        known = (magic, version) == (_MAGIC, _VERSION)
        is_whole = len(content) >= _HEADER_BYTES + slots * _SLOT_BYTES + size
        return (content, slots, size) if known and is_whole else None
