"""Confine servers: they write only in their own directories.

Problem of an ordinary user. The servers run as that user, so an option or a statement of an
experiment that somebody else wrote (``general_log_file``) could overwrite the user's files.

Solution. Landlock: below.

Problem of root. User ids of instances are reused. A server could leave a program with the
set-user-ID bit behind. A user who runs that program later, from a place such as /tmp, gets the id
of another instance's server.

Solution. Four layers, each of which the kernel removes with the last process:

mounts    The process has its own mounts (a mount namespace). All are read-only and ``nosuid``
          except binds of its own directories, which are only ``nosuid``. Paths, file systems and
          descriptors are the host's. The kernel ignores the set-user-ID bit of a file that another
          process reaches through a descriptor from these mounts.
network   A program that is run only for its answer has no network (a network namespace): a server
          has the host's, because clients and replicas reach it by TCP.
IPC       The process has its own shared memory, semaphores and message queues (an IPC namespace).
Landlock  The process creates, writes and removes files only below its own directories, even if
          another user of the host passes it a descriptor of a directory.

In addition, ``no_new_privs`` prevents any program that the process runs from having more rights
than the process, and a session keyring of its own replaces root's. One thread takes on all of this
and starts the process; millrace's other threads stay as they are.
"""

import os
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from millrace.host import mounts
from millrace.servers.instances import users
from millrace.system_calls import call, checked, in_own_thread, libc

_T = TypeVar("_T")

_Layer = tuple[str, Callable[[Sequence[Path]], None]]

# One table for all architectures from Linux 5.1 on.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446

_CLONE_NEWIPC = 0x8000000
_CLONE_NEWNET = 0x40000000
_PR_SET_NO_NEW_PRIVS = 38

_LANDLOCK_VERSION_FLAG = _LANDLOCK_PATH_BENEATH = 1
_LANDLOCK_NEEDED = 2  # earlier versions forbid renaming into another directory
_TRUNCATE_SINCE = 3
_WRITE_FILE = 1 << 1
_REMOVE = 1 << 4 | 1 << 5  # a directory; a file
_TRUNCATE = 1 << 14
# Create, link and rename directories, files, sockets, pipes and links; and devices.
_MAKE = sum(1 << bit for bit in (7, 8, 9, 10, 12, 13))
_MAKE_DEVICE = 1 << 6 | 1 << 11
# Every program may write here, subject to the permissions of its user.
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
    network: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, as the user ``uid``, with write access to ``writable``.

    ``writable`` are directories. If ``uid`` is None, the program runs as this user, confined by
    Landlock alone. Otherwise, without ``network`` the program reaches no other process by TCP or
    UDP. Layers that this host does not allow (``lacking``) are left out. Raise the errors of Popen.
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

    layers = _layers(as_this_user=uid is None, network=network)
    return _confined(layers, writable, lambda _: start())


def lacking() -> list[str]:
    """Return the layers that this host does not allow this user, with the reasons."""
    layers = _layers(as_this_user=not users.usable(), network=False)
    return _confined(layers, (), lambda left_out: left_out)


def _layers(*, as_this_user: bool, network: bool) -> tuple[_Layer, ...]:
    if as_this_user:
        return (("Landlock", _landlock),)
    return (
        # The mounts come first, because Landlock forbids changing them.
        ("mount namespace", _own_mounts),
        ("IPC namespace", partial(_unshare, _CLONE_NEWIPC)),
        *(() if network else (("network namespace", partial(_unshare, _CLONE_NEWNET)),)),
        ("Landlock", _landlock),
    )


def _confined(
    layers: Sequence[_Layer], writable: Sequence[Path], work: Callable[[list[str]], _T]
) -> _T:
    """Return the result of ``work``, called in a confined thread with the missing layers."""

    def confine_and_work() -> _T:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        users.leave_session_keyring()
        left_out = []
        for name, confine in layers:
            try:
                confine(writable)
            except OSError as error:
                left_out.append(f"no {name} ({error.strerror})")
        return work(left_out)

    return in_own_thread(confine_and_work)


def _own_mounts(writable: Sequence[Path]) -> None:
    """Give this thread its own mounts. Raise OSError with the host's mounts unchanged."""

    def bind_writable() -> None:
        for directory in writable:
            mounts.bind(directory, directory)

    mounts.take_own(bind_writable, writable=writable)


def _unshare(flag: int, _writable: Sequence[Path]) -> None:
    checked(libc.unshare(flag))


def _landlock(writable: Sequence[Path]) -> None:
    """Allow this thread to create and write files only below ``writable``.

    Raise OSError if the kernel has no Landlock or too old a version of it.
    """
    version = call(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    if version < _LANDLOCK_NEEDED:
        raise OSError(0, f"version {version}")
    write = _WRITE_FILE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    rights = _MAKE | _REMOVE | write
    handled = struct.pack("=Q", rights | _MAKE_DEVICE)  # struct landlock_ruleset_attr
    rules = call(_LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    try:
        for path in filter(Path.exists, _WRITABLE):
            _allow(rules, path, write)
        for directory in writable:
            _allow(rules, directory, rights)
        call(_LANDLOCK_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, descriptor)  # struct landlock_path_beneath_attr
        call(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
