"""Give a thread, and the processes that it starts, a private mount namespace.

The namespace begins as a copy of the host's mounts and ends with the last process in it. The host's
mounts never change. These functions need CAP_SYS_ADMIN and Linux 5.12; call them within
``in_own_thread``.
"""

import contextlib
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from millrace.system_calls import call, checked, libc

_MOUNT_SETATTR = 442  # the same number on all architectures from Linux 5.1 on
_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC = 1 << 1, 1 << 2, 1 << 3, 1 << 12, 1 << 14
_MS_PRIVATE, _MS_SLAVE = 1 << 18, 1 << 19
_MNT_DETACH = 2
_ENDING_S = 5.0
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY, _NOSUID = 1, 2


def take_own(change: Callable[[], None], *, writable: Sequence[Path]) -> None:
    """Move this thread to a private mount namespace, and call ``change`` to add mounts.

    Afterwards all mounts become read-only and ``nosuid``, except those at or below ``writable``.
    Raise OSError if the kernel refuses.
    """
    checked(libc.unshare(_CLONE_NEWNS))
    _set_attributes(Path("/"), _AT_RECURSIVE, propagation=_MS_PRIVATE)
    change()
    _set_attributes(Path("/"), _AT_RECURSIVE, add=_RDONLY | _NOSUID)
    for directory in writable:
        _set_attributes(directory, _AT_RECURSIVE, take=_RDONLY)


def bind(source: Path, target: Path) -> None:
    """Bind-mount ``source`` and the mounts below it at ``target``. Raise OSError."""
    flags = _MS_BIND | _MS_REC
    checked(libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None))


@contextlib.contextmanager
def own() -> Iterator[None]:
    """Run the block in a private mount namespace, which only processes started in it share.

    Later changes of the host's mounts are visible. Threads that are started in the block must end
    in the block. Raise OSError if the kernel refuses.
    """
    with contextlib.ExitStack() as opened:
        before, work_dir = (
            os.open(each, os.O_RDONLY | os.O_CLOEXEC) for each in ("/proc/thread-self/ns/mnt", ".")
        )
        opened.callback(os.close, before)
        opened.callback(os.close, work_dir)
        checked(libc.unshare(_CLONE_NEWNS))
        opened.callback(os.fchdir, work_dir)  # setns changes the working directory to the root
        opened.callback(_enter, before)
        _set_attributes(Path("/"), _AT_RECURSIVE, propagation=_MS_SLAVE)
        yield


def _enter(namespace: int) -> None:
    """Move this thread to a mount namespace. Raise OSError.

    The kernel refuses while another thread shares the current namespace. A thread that Python has
    joined may take a few more milliseconds to end, so this function retries.
    """
    until_s = time.monotonic() + _ENDING_S
    while True:
        try:
            checked(libc.setns(namespace, _CLONE_NEWNS))
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_ENDING_S / 1000)
        else:
            return


@contextlib.contextmanager
def mounted(device: str, directory: Path, kind: str) -> Iterator[None]:
    """Mount a file system of type ``kind`` for the block, with ``noexec`` and ``nodev``.

    The unmount is lazy: processes may keep using the file system. Raise OSError.
    """
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    place = os.fsencode(directory)
    checked(libc.mount(device.encode(), place, kind.encode(), flags, None))
    try:
        yield
    finally:
        checked(libc.umount2(place, _MNT_DETACH))


def mount_empty(directory: Path, *, size_bytes: int) -> None:
    """Mount an empty tmpfs that only this user can access. Raise OSError."""
    options = f"mode=700,size={size_bytes}".encode()
    flags = _MS_NOSUID | _MS_NODEV
    checked(libc.mount(b"tmpfs", os.fsencode(directory), b"tmpfs", flags, options))


def _set_attributes(
    path: Path, flags: int, *, add: int = 0, take: int = 0, propagation: int = 0
) -> None:
    attributes = struct.pack("=QQQQ", add, take, propagation, 0)  # struct mount_attr
    call(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))
