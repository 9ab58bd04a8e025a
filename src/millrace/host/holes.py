"""Punch holes into files, and check whether a file system frees the blocks."""

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
    """Check, with a temporary file in ``directory``, that punching a hole frees blocks.

    Raise Unavailable with the reason if it does not, and OSError if the file cannot be created.
    """
    with tempfile.TemporaryFile(dir=directory, prefix=".holes-") as file:
        descriptor = file.fileno()
        file.write(b"\xa5" * _FILE_BYTES)
        file.flush()
        os.fsync(descriptor)  # some file systems allocate blocks only now
        before = os.fstat(descriptor).st_blocks
        try:
            punch_hole(descriptor, 0, _HOLE_BYTES)
        except OSError as error:
            raise Unavailable(f"the file system cannot punch holes: {error.strerror}") from error
        os.fsync(descriptor)
        after = os.fstat(descriptor).st_blocks
    if after >= before:
        raise Unavailable(
            f"the file system does not free the blocks of a punched hole: {before} blocks before, "
            f"{after} after"
        )


def punch_hole(descriptor: int, start: int, length: int) -> None:
    """Free the blocks of a range of a file; its length does not change. Raise OSError."""
    checked(
        libc.fallocate(
            descriptor, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)
        )
    )
