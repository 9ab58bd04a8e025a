"""Define how the servers of a family are initialised, started and stopped."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millrace.model.servers import InstalledServer, Option


@dataclass(frozen=True)
class Site:
    """The location of one instance, from which its family writes command lines.

    The server's user owns ``data_dir``, ``tmp_dir`` and ``run_dir`` (socket and pid file).
    ``uid`` is the number of the server's user, None where that is millrace's. ``user_argument`` is
    the user to name where the server must run as root. ``password`` is the password of every
    account. The server listens at ``port`` where ``by_tcp``.
    """

    server: InstalledServer
    directory: Path
    data_dir: Path
    tmp_dir: Path
    load_dir: Path
    run_dir: Path
    socket: Path
    port: int
    user_argument: str | None
    password: str = field(repr=False)
    by_tcp: bool = True
    uid: int | None = None


@dataclass(frozen=True)
class Initialisation:
    """One run of the server program that turns an empty data directory into a usable one.

    ``directories`` are created beforehand inside the data directory; ``stdin`` is fed to the
    program; ``init_file`` is the content of a file that only the server's user may read. The file's
    path replaces ``{init_file}`` in ``arguments``, and the file is removed after the run.
    """

    arguments: tuple[str, ...]
    directories: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    init_file: bytes | None = field(default=None, repr=False)


class Lifecycle(Protocol):
    """The creation of a server's data directory, and the start and stop of the server."""

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that asks the server's process for a clean stop."""

    def socket_name(self, port: int) -> str:
        """Return the name of the socket of a server with this port."""

    def pid_file(self, site: Site) -> Path:
        """Return the file with the server's process id, written just before it accepts sessions."""

    def initialisation(self, site: Site, options: Sequence[Option]) -> Initialisation:
        """Return the run that creates a data directory with ``Family.account`` as its only account.

        ``options`` are the ``init_options`` of the configuration.
        """

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments that start the server, without those for its options."""

    def valgrind_arguments(self, version: str) -> tuple[str, ...]:
        """Return the further arguments without which a version does not start in valgrind."""

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments for every other run of the program."""
