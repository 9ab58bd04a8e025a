"""Initialise, start and stop servers of the mysqld line.

Two methods create a data directory. ``bootstrap`` feeds the package's own SQL scripts to the
server's standard input; ``initialize`` asks the server to do it itself. The method, the scripts,
and the statements that leave root@localhost and root@127.0.0.1 as the only accounts, both with a
password, are data of the family and depend on the version: the last entry counts whose ``since`` is
not newer than the server.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millrace.databases.base import Initialisation, Site, version_key
from millrace.databases.mysql import options
from millrace.databases.mysql.query import Data
from millrace.errors import TrialFailed
from millrace.host.read_as_user import read_as_user
from millrace.model.servers import InstalledServer, Option

_SCRIPT_LIMIT_BYTES = 64 << 20


class Script(Data):
    """A script of the package, under the first of the names ``any_of`` that exists."""

    any_of: tuple[str, ...]
    optional: bool = False


class InitialisationEntry(Data):
    """The creation of data directories by servers from the version ``since`` on."""

    since: str
    method: Literal["bootstrap", "initialize"]
    arguments: tuple[str, ...]
    first: tuple[str, ...] = ()  # statements before the scripts
    scripts: tuple[Script, ...] = ()
    accounts: tuple[str, ...]  # statements that leave the accounts


class StartEntry(Data):
    """Further arguments that start servers from the version ``since`` on."""

    since: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class MysqlLifecycle:
    """The lifecycle by the entries of a TOML file: see ``databases.base.Lifecycle``."""

    initialisations: Sequence[InitialisationEntry]
    starts: Sequence[StartEntry]
    valgrind_starts: Sequence[StartEntry] = ()
    stop_signal: signal.Signals = signal.SIGTERM

    def socket_name(self, port: int) -> str:
        return "mysqld.sock"

    def pid_file(self, site: Site) -> Path:
        return site.run_dir / "mysqld.pid"

    def program_arguments(self, site: Site) -> tuple[str, ...]:
        """Return the arguments for every run: the build's own files, never those of the host."""
        server = site.server
        arguments = [
            "--no-defaults",
            f"--basedir={server.base_dir}",
            f"--datadir={site.data_dir}",
            f"--tmpdir={site.tmp_dir}",
            f"--lc-messages-dir={server.share_dir}",
            # MySQL 5.7 forbids server-side LOAD DATA by default, 9.7 does not start without its own
            # default directory.
            f"--secure-file-priv={site.load_dir}",
        ]
        charsets = server.share_dir / "charsets"
        if charsets.is_dir():
            arguments.append(f"--character-sets-dir={charsets}")
        if site.user_argument is not None:
            arguments.append(f"--user={site.user_argument}")
        return tuple(arguments)

    def start_arguments(self, site: Site) -> tuple[str, ...]:
        arguments = [
            *self.program_arguments(site),
            f"--socket={site.socket}",
            f"--port={site.port}",
            "--bind-address=127.0.0.1",
            f"--pid-file={self.pid_file(site)}",
            "--local-infile=1",
        ]
        if not site.by_tcp:
            arguments.append("--skip-networking")
        return (*arguments, *_arguments_of(self.starts, site.server.version))

    def valgrind_arguments(self, version: str) -> tuple[str, ...]:
        return _arguments_of(self.valgrind_starts, version)

    def initialisation(self, site: Site, init_options: Sequence[Option]) -> Initialisation:
        version = version_key(site.server.version)
        entry = [each for each in self.initialisations if version_key(each.since) <= version][-1]
        accounts = "".join(
            statement.format(password=site.password) + ";\n" for statement in entry.accounts
        )
        arguments = (
            *self.program_arguments(site),
            *entry.arguments,
            *options.arguments(init_options),
        )
        if entry.method == "initialize":
            return Initialisation(arguments=arguments, init_file=accounts.encode())
        scripts = [_content(path, site) for path in _scripts(entry, site.server)]
        statements = [f"{statement};\n".encode() for statement in entry.first]
        return Initialisation(
            arguments=arguments,
            directories=("mysql",),
            stdin=b"\n".join([*statements, *scripts, accounts.encode()]),
        )


def _arguments_of(entries: Sequence[StartEntry], version: str) -> tuple[str, ...]:
    key = version_key(version)
    return tuple(
        argument
        for entry in entries
        if version_key(entry.since) <= key
        for argument in entry.arguments
    )


def _content(script: Path, site: Site) -> bytes:
    """Return a script as the server's user reads it: the build may be another user's."""
    try:
        return read_as_user(script, site.uid, limit_bytes=_SCRIPT_LIMIT_BYTES)
    except (OSError, ValueError) as error:
        raise TrialFailed(
            f"{site.server.name}: a script of its build, which is needed to make a data "
            f"directory, cannot be read: {error}",
            hint="let every user read the build, or run millrace as the build's owner",
            step="initialise",
        ) from error


def _scripts(entry: InitialisationEntry, server: InstalledServer) -> list[Path]:
    found = []
    for script in entry.scripts:
        candidates = [server.share_dir / name for name in script.any_of]
        present = [path for path in candidates if path.is_file()]
        if present:
            found.append(present[0])
        elif not script.optional:
            raise TrialFailed(
                f"{server.name}: {server.share_dir} has no {' or '.join(script.any_of)}, "
                "which is needed to make a data directory",
                hint="install the server again, or add a build that is complete",
                step="initialise",
            )
    return found
