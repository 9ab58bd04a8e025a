"""Make system calls for which Python and older C libraries have no function.

The kernel keeps privileges, user ids and mount namespaces per thread: change them in
``in_own_thread``.
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
    """Make a system call and return its result; raise OSError if it fails."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *words))


def checked(result: int) -> int:
    """Return ``result`` of a C library function; raise OSError from errno if it is negative."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def in_own_thread(work: Callable[[], _T]) -> _T:
    """Call ``work`` in a new thread, and return its result; per-thread state ends with it."""
    with _no_collection(), ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend garbage collection.

    A finalizer that removes files would fail in a thread with fewer privileges.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
