"""Find out whether a file system frees the blocks of a hole that is punched into a file."""

import ctypes
import os
import tempfile
from pathlib import Path

from millrace.errors import Unavailable
from millrace.system_calls import checked, libc

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h
_FILE_BYTES = 1 << 20
_HOLE_BYTES = _FILE_BYTES // 2


def require_holes(directory: Path) -> None:
    """Punch a hole into a file of its own in a directory.

    Raise Unavailable with the reason where the file does not become smaller on the disk, and
    OSError where no file can be made there.
    """
    with tempfile.TemporaryFile(dir=directory, prefix=".holes-") as file:
        descriptor = file.fileno()
        file.write(b"\xa5" * _FILE_BYTES)
        file.flush()
        os.fsync(descriptor)  # before, some file systems have not allocated the blocks
        before = os.fstat(descriptor).st_blocks
        try:
            punch_hole(descriptor, 0, _HOLE_BYTES)
        except OSError as error:
            raise Unavailable(f"its file system punches no holes: {error.strerror}") from error
        os.fsync(descriptor)
        after = os.fstat(descriptor).st_blocks
    if after >= before:
        raise Unavailable(
            f"its file system does not free the blocks of a punched hole: {before} before it, "
            f"{after} after it"
        )


def punch_hole(descriptor: int, start: int, length: int) -> None:
    """Free the blocks of a range of a file, whose length stays. Raise OSError."""
    checked(
        libc.fallocate(
            descriptor, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)
        )
    )
