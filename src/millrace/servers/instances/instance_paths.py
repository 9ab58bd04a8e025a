"""Choose and create the directories, socket and port of an instance."""

import contextlib
import errno
import os
import socket as sockets
import stat
from collections.abc import Iterator
from pathlib import Path

from millrace import paths
from millrace.databases.base import Initialisation
from millrace.model.servers import InstalledServer
from millrace.servers.instances import launch, ownership
from millrace.servers.instances.closing import give, open_without_links
from millrace.shared_directories import refuse_shared

_SOCKET_PATH_MAX_BYTES = (
    106  # sun_path has 108 bytes with the final zero; servers allow fewer than 107
)

RUN = "run"


def own_socket(directory: Path, instance_id: str, name: str) -> Path:
    """Return a socket path in the instance's directory, or a shorter one if that is too long."""
    near = directory / RUN / name
    if len(os.fsencode(near)) <= _SOCKET_PATH_MAX_BYTES:
        return near
    return ownership.short_directory(instance_id) / RUN / name


def make_directories(
    server: InstalledServer, directories: list[Path], run_dir: Path, *, uid: int | None
) -> launch.RunsAs:
    """Create the instance's directories, and return the user that the server runs as.

    Only ``data``, ``tmp`` and ``run_dir`` belong to the server's user. The other directories hold
    files that millrace writes or reads by name, so that user must not be able to plant files there.
    If the server has its own user, other users have no access to the instance, whatever permissions
    the server sets.
    """
    directory = directories[0]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        refuse_shared(directory.parent, "MILLRACE_WORK", has_secret_names=True)
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
            give(path, runs_as.uid)
    except OSError as error:
        raise paths.problem(
            error,
            f"{error.filename}: cannot create for an instance of {server.name}: {error.strerror}",
            hint="free space or fix the permissions there, "
            "or set MILLRACE_WORK to another directory",
        ) from error
    return runs_as


def new_file(directory: Path, name: str, mode: int) -> int:
    """Create a new file, and return a file descriptor for appending and reading."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(directory / name, flags, mode)


@contextlib.contextmanager
def init_file(directory: Path, todo: Initialisation, uid: int | None) -> Iterator[list[str]]:
    """Yield the arguments of an initialisation; its init file exists only inside the block."""
    if todo.init_file is None:
        yield list(todo.arguments)
        return
    file = directory / "init.sql"
    with os.fdopen(new_file(directory, file.name, 0o600), "wb") as writer:
        if uid is not None:
            os.fchown(writer.fileno(), -1, uid)
            os.fchmod(writer.fileno(), 0o640)
        writer.write(todo.init_file)
    try:
        yield [argument.replace("{init_file}", str(file)) for argument in todo.arguments]
    finally:
        file.unlink()


def make_given_away(path: Path, uid: int | None) -> None:
    """Create a directory for the server's user, who may have left anything under that name."""
    path.mkdir()
    descriptor = open_without_links(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if uid is not None:
            os.fchown(descriptor, uid, uid)
    finally:
        os.close(descriptor)


def open_socket(path: Path, uid: int | None) -> int | None:
    """Open a socket's path without connecting; return None if ``uid`` has no socket there.

    Connecting to ``/proc/self/fd/DESCRIPTOR`` reaches this very socket, even if its path is
    replaced later.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if stat.S_ISSOCK(status.st_mode) and uid in (None, status.st_uid):
        return descriptor
    os.close(descriptor)
    return None


def is_answered_at(path: Path) -> bool:
    """Return whether a process listens on the socket at ``path``."""
    descriptor = open_socket(path, None)
    if descriptor is None:
        return False
    with sockets.socket(sockets.AF_UNIX) as probe:
        try:
            probe.connect(f"/proc/self/fd/{descriptor}")
        except OSError:
            return False
        finally:
            os.close(descriptor)
    return True


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a free port of 127.0.0.1 while the block runs.

    The socket is bound but never listens, and it may be shared (SO_REUSEADDR). A server that also
    sets that option can listen there, while the kernel does not assign the port to a process that
    requests any free port.
    """
    with sockets.socket(sockets.AF_INET) as holder:
        holder.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def is_listened_at(port: int) -> bool:
    """Return whether a process listens on a port of 127.0.0.1, as the kernel reports."""
    with sockets.socket(sockets.AF_INET) as probe:
        probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
