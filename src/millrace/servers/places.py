"""Where an instance lives: its directories, its socket and its port."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket as sockets
import stat
from collections.abc import Iterator
from pathlib import Path

from millrace import paths
from millrace.errors import HostProblem
from millrace.servers import launch
from millrace.servers.model import InstalledServer

_SOCKET_PATH_MAX_BYTES = 106  # sun_path has 108, with its zero; the servers say "under 107"

RUN, SOCKET = "run", "mysqld.sock"
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - a fresh directory of ours, mode 0700


def own_socket(directory: Path, instance_id: str) -> Path:
    """Return a socket below the instance's directory, or a short one where that is too deep."""
    near = directory / RUN / SOCKET
    if len(os.fsencode(near)) <= _SOCKET_PATH_MAX_BYTES:
        return near
    return _SHORT_PLACE / f"millrace-{instance_id}" / RUN / SOCKET


def make_directories(
    server: InstalledServer, directories: list[Path], run_dir: Path, *, uid: int | None
) -> launch.RunsAs:
    """Make the instance's directories; only ``data``, ``tmp`` and ``run_dir`` belong to its server.

    What millrace writes or reads by name lies in the others, in which the server's user can plant
    nothing. Other users reach nothing in an instance whose server has a user of its own, whatever
    rights the server gives.
    """
    directory = directories[0]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        refuse_shared(directory.parent)
        for path in directories:
            path.mkdir(mode=0o700)
            if uid is not None:
                os.chown(path, -1, uid)
            path.chmod(0o755 if uid is None else 0o750)  # whatever the umask
        (directory / "load").mkdir()
        (directory / "load").chmod(0o755)
        runs_as = launch.choose_user(server, directories, uid=uid)
        for path in (directory / "data", directory / "tmp", run_dir):
            path.mkdir(mode=0o700)
            launch.give(path, runs_as)
    except OSError as error:
        refused = paths.refusal(error)
        if refused is not None:
            raise refused from error
        raise HostProblem(
            f"{error.filename}: cannot be made for an instance of {server.name}: {error.strerror}",
            remedy="free space or get the right to write there, "
            "or name another place with MILLRACE_WORK",
        ) from error
    return runs_as


def new_file(directory: Path, name: str, mode: int) -> int:
    """Make a file that was not there, and return a descriptor that appends to it and reads it."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(directory / name, flags, mode)


def open_given_away(path: Path, flags: int) -> int:
    """Open what lies in a directory of the server's user, without following a link or waiting."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def open_socket(path: Path, uid: int | None) -> int | None:
    """Open a socket's place without connecting; None where no socket of the user ``uid`` is there.

    Connecting to ``/proc/self/fd/DESCRIPTOR`` reaches this very socket, whatever the name leads to
    by then.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if stat.S_ISSOCK(status.st_mode) and uid in (None, status.st_uid):
        return descriptor
    os.close(descriptor)
    return None


def refuse_shared(work_dir: Path) -> None:
    """Refuse a directory in which another user could replace an instance's.

    Where millrace is root this holds for all that it lies in, too: who may rename one of them may
    have root write elsewhere. An ordinary user's servers run as that user, and nobody gains by it.
    """
    is_root = os.geteuid() == 0
    resolved = work_dir.resolve()
    for directory in (resolved, *resolved.parents) if is_root else (resolved,):
        status = directory.stat()
        others = stat.S_IWOTH | (stat.S_IWGRP if is_root else 0)
        if is_root and status.st_uid != 0:
            problem = f"the user with the number {status.st_uid}, who owns it,"
            mend = f"chown root {shlex.quote(str(directory))}"
        elif status.st_mode & others and not status.st_mode & stat.S_ISVTX:
            problem = "every user of this host" if status.st_mode & stat.S_IWOTH else "its group"
            mend = f"chmod go-w {shlex.quote(str(directory))}"
        else:
            continue
        raise HostProblem(
            f"{directory}: {problem} could replace an instance's files there",
            remedy=f"close it with: {mend}; or name another place with MILLRACE_WORK",
        )


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port of 127.0.0.1 that the kernel gives to nobody else.

    The socket is bound, never listens and may be shared (SO_REUSEADDR): a server, which sets that
    too, can listen there, while the kernel hands the port out to no one who asks for any port.
    """
    with sockets.socket(sockets.AF_INET) as holder:
        holder.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
