"""Where an instance lives: its directories, its socket and its port."""

from __future__ import annotations

import contextlib
import errno
import os
import socket as sockets
import stat
from collections.abc import Iterator
from pathlib import Path

from millrace import paths
from millrace.errors import HostError
from millrace.model.servers import InstalledServer
from millrace.servers.instances import launch, processes
from millrace.shared_directories import refuse_shared

_SOCKET_PATH_MAX_BYTES = 106  # sun_path has 108, with its zero; the servers say "under 107"

RUN = "run"


def own_socket(directory: Path, instance_id: str, name: str) -> Path:
    """Return a socket below the instance's directory, or a short one where that is too deep."""
    near = directory / RUN / name
    if len(os.fsencode(near)) <= _SOCKET_PATH_MAX_BYTES:
        return near
    return processes.short_directory(instance_id) / RUN / name


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
        refuse_shared(directory.parent, "MILLRACE_WORK")
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
        raise HostError(
            f"{error.filename}: cannot be made for an instance of {server.name}: {error.strerror}",
            hint="free space or get the right to write there, "
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


def is_listened_at(port: int) -> bool:
    """Return whether a process listens at a port of 127.0.0.1, by the kernel's word."""
    with sockets.socket(sockets.AF_INET) as probe:
        probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
