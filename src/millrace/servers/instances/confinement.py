"""Confines what root runs as another user: it writes in its own directories, and nowhere else.

Problem. User ids of instances are used again. A server could leave a program with the set-user-ID
bit behind, and who runs that later, from a place such as /tmp, has the id of another instance's
server.

Answer. Three layers, each of which the kernel takes back with the last process:

mounts    The process has mounts of its own (a mount namespace). All are read-only and ``nosuid``
          but for binds of its own directories, which are ``nosuid`` alone. Paths, file systems and
          descriptors are the host's. The kernel honours no set-user-ID bit of a file that another
          process reaches through a descriptor from these mounts.
IPC       The process has shared memory, semaphores and message queues of its own (an IPC
          namespace).
Landlock  The process makes and writes files only below its own directories, also where another
          user of the host hands it a descriptor of a directory.

Beside them ``no_new_privs``: no program that the process runs has more rights than itself; and a
session keyring of its own instead of root's. A thread takes on all of this and starts the process;
millrace's other threads keep what they have.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from millrace.host import mounts
from millrace.servers.instances import keyrings
from millrace.system_calls import call, checked, in_own_thread, libc

_T = TypeVar("_T")

# One table for all architectures from Linux 5.1 on.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446

_CLONE_NEWIPC = 0x8000000
_PR_SET_NO_NEW_PRIVS = 38

_LANDLOCK_VERSION_FLAG = _LANDLOCK_PATH_BENEATH = 1
_LANDLOCK_NEEDED = 2  # before it no file can be renamed into another directory
_WRITE_FILE = 1 << 1
# Directories, files, sockets, pipes and links are made, linked and renamed; and devices.
_MAKE = sum(1 << bit for bit in (7, 8, 9, 10, 12, 13))
_MAKE_DEVICE = 1 << 6 | 1 << 11
# What every program may write to, if its user may.
_WRITABLE = tuple(map(Path, ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/proc")))


def popen(
    argv: Sequence[str],
    *,
    uid: int | None,
    writable: Sequence[Path],
    env: Mapping[str, str],
    cwd: Path,
    stdin: int,
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, as the user ``uid`` and confined to the directories
    ``writable``; where ``uid`` is None, as this user and not confined.

    A layer that this host does not allow is left out (``lacking``). Raises what Popen raises.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )

    if uid is None:
        return start()
    return _confined(writable, lambda _: start())


def lacking() -> list[str]:
    """Return which layers this host does not allow, and why; for root."""
    return _confined((), lambda left_out: left_out)


def _confined(writable: Sequence[Path], work: Callable[[list[str]], _T]) -> _T:
    """Return what ``work`` returns, which a confined thread calls with the layers it lacks."""

    def confine_and_work() -> _T:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        keyrings.leave_session()
        left_out = []
        # The mounts first: what Landlock confines changes no mount.
        for name, confine in (
            ("mount namespace", _own_mounts),
            ("IPC namespace", _own_ipc),
            ("Landlock", _landlock),
        ):
            try:
                confine(writable)
            except OSError as error:
                left_out.append(f"no {name} ({error.strerror})")
        return work(left_out)

    return in_own_thread(confine_and_work)


def _own_mounts(writable: Sequence[Path]) -> None:
    """Give this thread mounts of its own. Raise OSError, with the host's as they were."""

    def bind_writable() -> None:
        for directory in writable:
            mounts.bind(directory, directory)

    mounts.take_own(bind_writable, writable=writable)


def _own_ipc(_writable: Sequence[Path]) -> None:
    """Give this thread shared memory, semaphores and message queues of its own. Raise OSError."""
    checked(libc.unshare(_CLONE_NEWIPC))


def _landlock(writable: Sequence[Path]) -> None:
    """Let this thread make and write files only below ``writable``. Raise OSError where the kernel
    has no Landlock, or too old a one."""
    version = call(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    if version < _LANDLOCK_NEEDED:
        raise OSError(0, f"version {version}")
    handled = struct.pack("=Q", _MAKE | _MAKE_DEVICE | _WRITE_FILE)  # struct landlock_ruleset_attr
    rules = call(_LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    try:
        for path in filter(Path.exists, _WRITABLE):
            _allow(rules, path, _WRITE_FILE)
        for directory in writable:
            _allow(rules, directory, _MAKE | _WRITE_FILE)
        call(_LANDLOCK_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    """Add a rule: the rights at ``path`` and below it."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, descriptor)  # struct landlock_path_beneath_attr
        call(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
