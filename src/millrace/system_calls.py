"""Makes system calls that Python and older C libraries have no names for.

To the kernel, rights, user ids and mounts belong to a thread: ``in_own_thread`` is where to change
them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")

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


def in_own_thread(work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns, called in a thread that ends with it.

    What it changes of the thread, others of this process do not see. Raises what ``work`` raises.
    """
    with _no_collection(), ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep a thread of fewer rights from finalising what others left: it could remove no file."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
