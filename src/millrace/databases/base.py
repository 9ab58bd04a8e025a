"""What a family is: plain values, and two functions that say what to run. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.model.servers import InstalledServer, Option


@dataclass(frozen=True)
class Site:
    """Where one instance lives, as its family needs to know it to write a command line.

    The server's user owns ``data_dir``, ``tmp_dir`` and ``run_dir`` (socket and pid file).
    ``user_argument`` is the name for the server's own ``--user``, only where the server has to run
    as root; ``password`` is the one of every account. At ``port`` it listens where ``by_tcp``.
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

    @property
    def pid_file(self) -> Path:
        """Where the server writes its process number down, just before it takes connections."""
        return self.run_dir / "mysqld.pid"


@dataclass(frozen=True)
class Initialisation:
    """One run of the server program that turns an empty data directory into a usable one.

    ``directories`` are made beforehand inside the data directory; ``stdin`` is fed to the program;
    ``init_file`` is the content of a file that only the server's user may read, whose path is put
    in place of ``{init_file}`` in ``arguments``, and which is removed after the run.
    """

    arguments: tuple[str, ...]
    directories: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    init_file: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Replacement:
    """Where a server has both options, ``winner`` makes it ignore ``loser``."""

    winner: str
    loser: str


@dataclass(frozen=True)
class Pressure:
    """A global variable that makes a server write back sooner while it is at ``at_least`` or
    ``at_most``; one of the two is None."""

    variable: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class WriteBack:
    """How to see what a server still has to write, purge and merge, and how to hurry it.

    ``question`` is a statement whose last column is a text; ``figures`` are patterns with one group
    for that text. A server's text has only the figures its version knows. ``pressure`` is applied
    in its order and taken back in the reverse one.
    """

    question: str
    figures: Mapping[str, re.Pattern[str]]
    pressure: tuple[Pressure, ...]


@dataclass(frozen=True)
class Table:
    """A table in which a server tells about itself.

    ``columns`` are our names, each with what versions call that column: the first that a server has
    counts, and what it has none of is left out. ``where`` is a condition, with ``%(database)s`` for
    the database that is observed. Its rows grow only while an instrument whose name begins with
    ``instruments`` is on, and each of ``consumers`` that the server has.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    where: str | None = None
    instruments: str | None = None
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explains:
    """How versions from ``since`` are asked for the plan of ``{sql}``, and the first words of the
    statements that they explain."""

    since: str
    form: str
    verbs: frozenset[str]


@dataclass(frozen=True)
class Observable:
    """What a family's servers can be asked about themselves while they work.

    ``status``, ``engine_status`` and ``process_list`` are statements; ``performance_schema`` is one
    whose only value tells whether that is on, ``thread_handling`` one whose only value tells how
    sessions get threads. Of ``explains`` the last entry counts that is not newer than the server.
    ``gauges`` and ``metric_gauges`` are names or shell patterns of status variables and of engine
    metrics that tell a state now; all others count. ``thread_kinds`` are pairs of a kind and a
    pattern for the name of a thread, of which the first that fits counts; ``thread_functions`` are
    the kinds of threads without a name by the functions that they run.
    """

    status: str
    gauges: tuple[str, ...]
    metric_gauges: tuple[str, ...]
    engine_status: str
    process_list: str
    performance_schema: str
    thread_handling: str
    explains: tuple[Explains, ...]
    tables: Mapping[str, Table]
    thread_kinds: tuple[tuple[str, re.Pattern[str]], ...]
    thread_functions: Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """How the servers of one line are initialised and started, and what is special about them.

    Option and variable names have underscores. ``host_variables`` are names or shell patterns of
    variables that differ on every start (paths, ports, host names) and say nothing about the
    server. ``shaping_options`` also decide how a data directory is laid out, so that initialisation
    must be given them too. ``traceless_options`` are names or shell patterns of options that leave
    no trace in the files of a server that was stopped cleanly. ``administrative_options`` belong to
    millrace: a configuration must not set them. ``says`` is found in what a server of the family
    says of itself. ``forget_binary_log`` is the statement that empties it, by the first version
    that has it.
    """

    name: str
    title: str
    says: re.Pattern[str]
    host_variables: tuple[str, ...]
    shaping_options: frozenset[str]
    traceless_options: tuple[str, ...]
    administrative_options: frozenset[str]
    replacements: tuple[Replacement, ...]
    forget_binary_log: tuple[tuple[str, str], ...]
    write_back: WriteBack
    observable: Observable
    initialisation: Callable[[Site, tuple[Option, ...]], Initialisation]
    start_arguments: Callable[[Site], tuple[str, ...]]
    program_arguments: Callable[[Site], tuple[str, ...]]

    def recognises(self, said: str) -> bool:
        """Whether a server whose ``VERSION()`` and ``@@version_comment`` are ``said`` is one."""
        return self.says.search(said) is not None


def version_key(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparison: ``8.0.0-dmr`` is (8, 0, 0)."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not character.isascii() or not character.isdigit():
                break
            digits += character
        if digits:
            numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
