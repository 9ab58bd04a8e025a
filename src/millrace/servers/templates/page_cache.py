"""Brings files into a known state of the page cache.

``cold``: written back and dropped. ``warm``: written back and read in. Servers that open their
files with O_DIRECT do not see the difference; buffered ones do, and would otherwise depend on what
the trial before left in memory.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from millrace.system_calls import checked, libc

State = Literal["cold", "warm"]

_READ_BYTES = 1 << 22
_READERS = 4


def files_below(directory: Path) -> list[Path]:
    """Every file in a directory and its directories, sorted."""
    return sorted(Path(at) / name for at, _, names in os.walk(directory) for name in names)


def bring(directory: Path, state: State) -> None:
    """Write back the file system of ``directory``, and bring its files into ``state``.

    Pages that a process has mapped cannot be dropped, so no server may use the files.
    """
    write_back(directory)
    act = _drop if state == "cold" else _read
    with ThreadPoolExecutor(_READERS) as threads:
        list(threads.map(act, files_below(directory)))


def write_back(directory: Path) -> None:
    """Wait until everything dirty on the file system of ``directory`` is on the disk (syncfs)."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        checked(libc.syncfs(descriptor))
    finally:
        os.close(descriptor)


def _drop(file: Path) -> None:
    descriptor = _opened(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _read(file: Path) -> None:
    buffer = bytearray(_READ_BYTES)
    with open(file, "rb", buffering=0, opener=_opened) as opened:
        while opened.readinto(buffer):
            pass


def _opened(file: str | Path, flags: int) -> int:
    """Open the file of this very name: what a server left there may lead anywhere."""
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
