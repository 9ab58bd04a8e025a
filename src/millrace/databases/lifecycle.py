"""Define how the servers of a family are initialised, started and stopped."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millrace.model.servers import InstalledServer, Option


@dataclass(frozen=True)
class Site:
    """The location of an instance; the server's user owns its data, tmp and run directories."""

    server: InstalledServer
    directory: Path
    data_dir: Path
    tmp_dir: Path
    load_dir: Path
    run_dir: Path  # for socket and pid file
    socket: Path
    port: int
    user_argument: str | None  # to name where the server must run as root
    password: str = field(repr=False)  # of every account
    by_tcp: bool = True  # it listens at ``port``


@dataclass(frozen=True)
class Initialisation:
    """One run of the server program that turns an empty data directory into a usable one."""

    arguments: tuple[str, ...]  # the init file's path replaces {init_file}
    directories: tuple[str, ...] = ()  # made beforehand in the data directory
    stdin: bytes = field(default=b"", repr=False)
    init_file: bytes | None = field(default=None, repr=False)  # for the server's user alone


class Lifecycle(Protocol):
    """The creation of a server's data directory, and the start and stop of the server."""

    @property
    def stop_signal(self) -> signal.Signals: ...  # asks the process for a clean stop

    def socket_name(self, port: int) -> str:
        """Return the name of the socket of a server with this port."""

    def pid_file(self, site: Site) -> Path:
        """Return the file with the server's process id, written just before it accepts sessions."""

    def initialisation(self, site: Site, options: Sequence[Option]) -> Initialisation:
        """Return the run that creates a data directory with ``init_options`` and one account."""

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments that start the server, without those for its options."""

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments for every other run of the program."""
