"""Make system calls for which Python and older C libraries have no names.

In the kernel, rights, user ids and mounts belong to a thread: change them in ``in_own_thread``.
"""

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
    """Make the system call of this number; raise OSError where the kernel refuses it."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *words))


def checked(result: int) -> int:
    """Return the result of a function of the C library; raise OSError where it failed."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def in_own_thread(work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns or raises in a thread of its own, whose changes end with it."""
    with _no_collection(), ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend garbage collection: a thread of fewer rights could not remove the files of others."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
