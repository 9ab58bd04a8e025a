"""Where an instance lives: its directories, its socket and its port."""

from __future__ import annotations

import contextlib
import os
import socket as sockets
from collections.abc import Iterator
from pathlib import Path

from millrace import paths
from millrace.errors import HostProblem
from millrace.servers import launch
from millrace.servers.model import InstalledServer

_SOCKET_PATH_MAX_BYTES = 106  # sun_path has 108, with its zero; the servers say "under 107"
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - a fresh directory of ours, mode 0700


def own_socket(directory: Path, instance_id: str) -> Path:
    """A socket in the instance's directory, or in a short one where that is too deep."""
    near = directory / "mysqld.sock"
    if len(os.fsencode(near)) <= _SOCKET_PATH_MAX_BYTES:
        return near
    return _SHORT_PLACE / f"millrace-{instance_id}" / "mysqld.sock"


def make_directories(server: InstalledServer, directories: list[Path]) -> launch.RunsAs:
    """Make the instance's directories and give them to the user the server will run under."""
    directory = directories[0]
    parts = [directory / name for name in ("data", "tmp", "load")]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        for path in directories:
            path.mkdir(mode=0o755 if path == directory else 0o700)
        runs_as = launch.choose_user(server, [directory.parent])
        for path in parts:
            path.mkdir(mode=0o755 if path.name == "load" else 0o700)
        for path in [*directories, *parts]:
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
