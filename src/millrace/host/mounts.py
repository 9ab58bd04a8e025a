"""Give a thread, and the processes that it starts, a mount namespace of their own.

The namespace begins as a copy of the host's mounts and ends with the last process in it. The host's
mounts never change. Needs CAP_SYS_ADMIN and Linux 5.12; call it within ``in_own_thread``.
"""

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from millrace.system_calls import call, checked, libc

_MOUNT_SETATTR = 442  # the same number on all architectures from Linux 5.1 on
_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_PRIVATE = 1 << 1, 1 << 2, 1 << 12, 1 << 18
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY, _NOSUID = 1, 2


def take_own(change: Callable[[], None], *, writable: Sequence[Path]) -> None:
    """Give this thread mounts of its own, and let ``change`` change them.

    Afterwards all mounts become read-only and ``nosuid``, except those at ``writable``. Raise
    OSError where the kernel refuses.
    """
    checked(libc.unshare(_CLONE_NEWNS))
    _set_attributes(Path("/"), _AT_RECURSIVE, propagation=_MS_PRIVATE)
    change()
    _set_attributes(Path("/"), _AT_RECURSIVE, add=_RDONLY | _NOSUID)
    for directory in writable:
        _set_attributes(directory, 0, take=_RDONLY)


def bind(source: Path, target: Path) -> None:
    """Bind-mount the directory ``source`` at ``target``. Raise OSError where the kernel refuses."""
    checked(libc.mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND, None))


def mount_empty(directory: Path, *, size_bytes: int) -> None:
    """Mount an empty file system in memory, for this user alone. Raise OSError."""
    options = f"mode=700,size={size_bytes}".encode()
    flags = _MS_NOSUID | _MS_NODEV
    checked(libc.mount(b"tmpfs", os.fsencode(directory), b"tmpfs", flags, options))


def _set_attributes(
    path: Path, flags: int, *, add: int = 0, take: int = 0, propagation: int = 0
) -> None:
    attributes = struct.pack("=QQQQ", add, take, propagation, 0)  # struct mount_attr
    call(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))
