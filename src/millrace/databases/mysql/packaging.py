"""Find the program, messages and bootstrap SQL of MySQL and MariaDB in a tree."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from millrace.databases.base import Build, Incomplete, Located, version_key
from millrace.host import elf

PROGRAMS = ("mariadbd", "mysqld")

_VERSION = re.compile(r"Ver (\d{1,3}\.\d{1,3}\.\d{1,4})(?!\d)")
_SHARED_OBJECT = re.compile(r".*\.so(\.\w+)*")
_LICENCE = re.compile(r"(COPYING|LICENSE|README|copyright).*")
_CLIENT_LIBRARY = re.compile(r"lib(mysqlclient|mariadb|mysqld|mysqlservices)\b.*")
_NOT_NEEDED = re.compile(r"(mysql|mariadb)-test|sql-bench|mysqlrouter|debug|man|docs?|lintian")

# Installed trees first, then packages, then build trees of cmake, then flat bundles.
_PROGRAM_DIRS = (
    "bin", "sbin", "libexec", "usr/sbin", "usr/bin", "usr/libexec",
    "runtime_output_directory", "sql", "",
)  # fmt: skip
_MESSAGE_DIRS = ("share", "share/mysql", "share/mariadb", "sql/share")
_MESSAGES = "english/errmsg.sys"
_SQL_DIRS = ("share", "share/mysql", "share/mariadb", "scripts", "../scripts")
# A build with one of these is initialised with SQL from files.
_SYSTEM_TABLES = ("mysql_system_tables.sql", "mariadb_system_tables.sql")


class MysqlPackaging:
    """The packaging of MySQL and MariaDB: see ``databases.base.Packaging``."""

    version_arguments = ("--no-defaults", "--version")

    def is_needed(self, path: PurePosixPath) -> bool:
        folders = path.parts[:-1]
        if any(map(_NOT_NEEDED.fullmatch, folders)) or _CLIENT_LIBRARY.fullmatch(path.name):
            return False
        if path.name in PROGRAMS or _SHARED_OBJECT.fullmatch(path.name):
            return True
        if "share" in folders or (folders[-1:] == ("scripts",) and path.suffix == ".sql"):
            return True
        return len(folders) <= 1 and _LICENCE.fullmatch(path.name) is not None

    def locate(self, directory: Path) -> Located:
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

    def read_version(self, output: str) -> Build | None:
        match = _VERSION.search(output)
        if match is None:
            return None
        # The text before it is the program's path, which may contain any name.
        rest = output[match.start() :].lower()
        return Build("mariadb" if "mariadb" in rest else "mysql", match[1])

    def missing(self, build: Build, located: Located) -> str | None:
        """Name missing system tables, which MySQL from 5.7 has in the program; None for none."""
        in_program = build.family == "mysql" and version_key(build.version) >= (5, 7)
        return None if in_program or located.sql_dir is not None else " or ".join(_SYSTEM_TABLES)


def find_program(tree: Path) -> Path | None:
    """Return the ELF file of the server in a tree, ignoring wrappers and scripts of its name."""
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
    return any((directory / name).is_file() for name in _SYSTEM_TABLES)
