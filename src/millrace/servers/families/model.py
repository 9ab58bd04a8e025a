"""What a family is: plain values, and two functions that say what to run. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from millrace.servers.model import InstalledServer, Option


@dataclass(frozen=True)
class Site:
    """Where one instance lives, as its family needs to know it to write a command line.

    ``user_argument`` is the name for the server's own ``--user``, only where the server has to run
    as root; ``password`` is the one of every account.
    """

    server: InstalledServer
    directory: Path
    data_dir: Path
    tmp_dir: Path
    load_dir: Path
    socket: Path
    port: int
    user_argument: str | None
    password: str = field(repr=False)


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
class Family:
    """How the servers of one line are initialised and started, and what is special about them.

    Option and variable names have underscores. ``host_variables`` are names or shell patterns of
    variables that differ on every start (paths, ports, host names) and say nothing about the
    server. ``shaping_options`` also decide how a data directory is laid out, so that initialisation
    must be given them too. ``administrative_options`` belong to millrace: a configuration must not
    set them. ``says`` is found in what a server of the family says of itself.
    """

    name: str
    title: str
    says: re.Pattern[str]
    host_variables: tuple[str, ...]
    shaping_options: frozenset[str]
    administrative_options: frozenset[str]
    replacements: tuple[Replacement, ...]
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
