"""Makes system calls that Python and older C libraries have no names for."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make the system call of this number. Raise OSError where the kernel refuses it."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *words))


def checked(result: int) -> int:
    """Return what a function of the C library returned. Raise OSError where it failed."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
