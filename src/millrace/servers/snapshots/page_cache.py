"""Bring files into a known state of the page cache.

``cold``: written back and dropped. ``warm``: written back and read in. Servers that open their
files with O_DIRECT do not notice the difference; buffered ones do, and would otherwise depend on
what the previous trial left in memory.
"""

import os
import threading
from pathlib import Path
from typing import Literal

from millrace.servers.instances.closing import open_without_links
from millrace.servers.snapshots import copying
from millrace.system_calls import checked, libc

State = Literal["cold", "warm"]

_READ_BYTES = 1 << 22


def files_below(directory: Path) -> list[Path]:
    """Return every file below a directory, sorted."""
    return sorted(Path(at) / name for at, _, names in os.walk(directory) for name in names)


def bring(directory: Path, state: State) -> None:
    """Write back the file system of ``directory``, and bring its files into ``state``.

    Pages that a process has mapped cannot be dropped, so no server may use the files. On failure or
    interruption, all threads have ended.
    """
    write_back(directory)
    copying.in_threads(_drop if state == "cold" else _read, files_below(directory))


def write_back(directory: Path) -> None:
    """Wait until all dirty data on the file system of ``directory`` is on the disk (syncfs)."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        checked(libc.syncfs(descriptor))
    finally:
        os.close(descriptor)


def _drop(file: Path, stopped: threading.Event) -> None:
    if stopped.is_set():
        return
    descriptor = open_without_links(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _read(file: Path, stopped: threading.Event) -> None:
    """Read the data of a file; skip its holes, which may be terabytes and are on no disk."""
    if stopped.is_set():
        return
    with (
        open(file, "rb", buffering=0, opener=open_without_links) as opened,
        memoryview(bytearray(_READ_BYTES)) as buffer,
    ):
        size = os.fstat(opened.fileno()).st_size
        for start, end in copying.data_ranges(opened.fileno(), size):
            offset = start
            while offset < end and not stopped.is_set():
                with buffer[: end - offset] as room:
                    got = os.preadv(opened.fileno(), [room], offset)
                if got == 0:  # the file became shorter
                    break
                offset += got
            if stopped.is_set():
                return
