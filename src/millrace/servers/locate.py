"""Finds the server program, its messages and its bootstrap SQL in a directory tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import UserError
from millrace.servers import elf

PROGRAMS = ("mariadbd", "mysqld")

# Installed trees first, then packages, then what cmake leaves in a build tree, then flat bundles.
_PROGRAM_DIRS = (
    "bin",
    "sbin",
    "libexec",
    "usr/sbin",
    "usr/bin",
    "usr/libexec",
    "runtime_output_directory",
    "sql",
    "",
)
_MESSAGE_DIRS = ("share", "share/mysql", "share/mariadb", "sql/share")
_MESSAGES = "english/errmsg.sys"
_SQL_DIRS = ("share", "share/mysql", "share/mariadb", "scripts", "../scripts")
# One of these means that the server is initialised with SQL from files.
SYSTEM_TABLES = ("mysql_system_tables.sql", "mariadb_system_tables.sql")


class Incomplete(UserError):
    """A tree that has no complete server."""


@dataclass(frozen=True)
class Located:
    """A server's parts; ``sql_dir`` is None where no bootstrap SQL was found."""

    base_dir: Path
    program: Path
    share_dir: Path
    sql_dir: Path | None


def locate(directory: Path) -> Located:
    """The server in a directory: installed, unpacked from a package, or freshly built.

    A directory that holds only one other (as a vendor's tarball does) is entered. Raises Incomplete
    that names what was looked for and where.
    """
    for tree in _candidates(directory):
        program = find_program(tree)
        if program is not None:
            return _around(program, tree)
    places = ", ".join(place or "itself" for place in _PROGRAM_DIRS)
    raise Incomplete(
        f"no server program in {directory}: looked for {' and '.join(PROGRAMS)} in {places}",
        hint="give the directory that holds bin/mysqld or bin/mariadbd, or a build directory "
        "in which the server has been built",
    )


def find_program(tree: Path) -> Path | None:
    """The ELF file of the server in a tree; wrappers and scripts of its name are passed over."""
    for place in _PROGRAM_DIRS:
        for name in PROGRAMS:
            path = tree / place / name
            if path.is_file() and elf.is_elf(path):
                return path.resolve()
    return None


def _candidates(directory: Path) -> Iterator[Path]:
    yield directory
    inside = [each for each in directory.iterdir() if each.is_dir()] if directory.is_dir() else []
    if len(inside) == 1:
        yield inside[0]


def _around(program: Path, tree: Path) -> Located:
    base_dir = program.parent if program.parent == tree.resolve() else program.parent.parent
    messages = [base_dir / each for each in _MESSAGE_DIRS]
    # A Debian package may carry its version in the name of the directory.
    messages += sorted((base_dir / "share").glob("m*-*")) if (base_dir / "share").is_dir() else []
    share_dir = next((each for each in messages if (each / _MESSAGES).is_file()), None)
    if share_dir is None:
        looked = ", ".join(str(each) for each in messages)
        raise Incomplete(
            f"{program} has no error messages: no {_MESSAGES} in {looked}",
            hint="give a complete installation; in a build tree, build everything first "
            "(the messages are made by the target GenError)",
        )
    places = (share_dir, *(base_dir / each for each in _SQL_DIRS))
    return Located(base_dir, program, share_dir, next(filter(_has_system_tables, places), None))


def _has_system_tables(directory: Path) -> bool:
    return any((directory / name).is_file() for name in SYSTEM_TABLES)
