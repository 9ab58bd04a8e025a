"""Choose and create the directories, socket and port of an instance."""

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
    """Return a socket path below the instance's directory, or a short one if that is too long."""
    near = directory / RUN / name
    if len(os.fsencode(near)) <= _SOCKET_PATH_MAX_BYTES:
        return near
    return processes.short_directory(instance_id) / RUN / name


def make_directories(
    server: InstalledServer, directories: list[Path], run_dir: Path, *, uid: int | None
) -> launch.RunsAs:
    """Create the instance's directories.

    Only ``data``, ``tmp`` and ``run_dir`` belong to its server. The others hold the files that
    millrace writes or reads by name, and the server's user can plant nothing there. Other users get
    no access to an instance whose server has its own user, whatever rights the server grants.
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
    """Create a new file, and return a descriptor that appends to it and reads it."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(directory / name, flags, mode)


def open_given_away(path: Path, flags: int) -> int:
    """Open a file in a directory of the server's user, without following links or blocking."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def open_socket(path: Path, uid: int | None) -> int | None:
    """Open a socket's path without connecting; None where the user ``uid`` has no socket there.

    Connecting to ``/proc/self/fd/DESCRIPTOR`` reaches this very socket, even if the path then leads
    to another one.
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
    """Reserve a port of 127.0.0.1 that the kernel assigns to nobody else.

    The socket is bound, never listens and may be shared (SO_REUSEADDR). A server, which sets that
    option too, can listen there, while the kernel assigns the port to no process that asks for any
    port.
    """
    with sockets.socket(sockets.AF_INET) as holder:
        holder.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def is_listened_at(port: int) -> bool:
    """Return whether a process listens at a port of 127.0.0.1, as the kernel reports."""
    with sockets.socket(sockets.AF_INET) as probe:
        probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
