"""Read the files that callgrind wrote: the instructions of each call path of a thread.

A file comes from a directory of the server, which may write anything there. So its size, its
lines and its numbers are limited, and what does not add up is an error.

The format is described in valgrind's manual, "Callgrind Format Specification". callgrind names a
function with its callers, the innermost first, as ``free'foo(int)'main``: each such name is a call
path. Names are written once, with a number, and then by their number. A line of costs has the
position, which says nothing here, and the instructions; the line after ``calls=`` has those of the
call, which the lines of the called function have too.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from millrace.collect.profiling.function_names import short
from millrace.errors import TrialFailed
from millrace.host import valgrind
from millrace.model.instruction_counts import UNKNOWN, CallPath
from millrace.servers.instances.closing import close_tree, open_without_links

_MOST_FILES = 100_000
_MOST_BYTES = 1 << 30  # of all files, whose content stays in memory

_FILE_LIMIT_BYTES = 256 << 20  # a point query of a new server has 6 MB
_LINE_LIMIT_BYTES = 1 << 20  # names of templates are long, and a path has up to 200
_MOST_NAMES = 2_000_000
_MOST_OF_A_PATH = 256  # functions; callgrind tells apart 200 callers
_MOST_OF_PATHS = 10_000_000  # functions of all paths together; a point query has 200,000
_MOST_INSTRUCTIONS = 1 << 60
_MOST_OF_A_NAME = 4096  # characters; names are shortened, which takes time
_UNKNOWN_FILE = "???"

_NAMED = re.compile(r"\((\d{1,9})\)(?: (.+))?")
_COST = re.compile(r"[+\-]?\d{1,20}|\*")
_VERSION = re.compile(r"(?:-\d[\d.]*)?\.so(?:\.\w+)*$")
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of a function without a name
_BREAKING = re.compile(r"[;\s\x00-\x1f\x7f]+")

T = TypeVar("T")


@dataclass(frozen=True)
class ThreadDump:
    """The calls and instructions of one thread between two moments.

    ``own`` are the instructions of a path's last function itself, ``calls`` how often a path was
    entered. ``files`` are the program or library of functions, where callgrind knew it.
    """

    own: Mapping[CallPath, int]
    calls: Mapping[CallPath, int]
    files: Mapping[str, str]

    @property
    def total(self) -> int:
        """The instructions of the thread."""
        return sum(self.own.values())


def parse(lines: Iterable[bytes]) -> ThreadDump:
    """Parse the lines of a file. Raise ValueError, with the line's number, for another format."""
    reader = _Reader()
    number = 0
    for number, raw in enumerate(lines, start=1):
        try:
            if len(raw) > _LINE_LIMIT_BYTES:
                raise ValueError(f"it has more than {_LINE_LIMIT_BYTES:,} bytes")
            reader.read(raw.decode(errors="replace").rstrip("\n"))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    try:
        return reader.finished()
    except ValueError as error:
        raise ValueError(f"after line {number}: {error}") from error


class _Reader:
    """The state between two lines."""

    def __init__(self) -> None:
        self._own: Counter[CallPath] = Counter()
        self._calls: Counter[CallPath] = Counter()
        self._files: dict[str, str] = {}
        self._paths: dict[str, CallPath] = {}  # by number
        self._functions = 0  # of all paths
        self._objects: dict[str, str] = {}
        self._short: dict[str, str] = {}  # names of functions
        self._path: CallPath | None = None
        self._called: CallPath | None = None
        self._object = _UNKNOWN_FILE
        self._is_of_call = False  # the next costs
        self._counts: bool = False  # instructions
        self._total: int | None = None

    def read(self, line: str) -> None:
        """Read a line. Raise ValueError where it makes no sense here."""
        if not line or line.startswith("#"):
            return
        if line[0].isdigit() or line[0] in "+-*":
            self._costs(line)
            return
        key, equals, value = line.partition("=")
        match key if equals else "":
            case "fn":
                self._path = self._path_of(value)
                self._files.setdefault(self._path[-1], self._object)
            case "ob":
                self._object = self._object_of(value)
            case "cob":
                self._object_of(value)
            case "cfn":
                self._called = self._path_of(value)
            case "calls":
                self._call(value)
            case "fl" | "fi" | "fe" | "cfi" | "cfl":
                pass  # files of the source
            case _:
                self._head(line)

    def finished(self) -> ThreadDump:
        """Return the whole. Raise ValueError where the end is missing."""
        if not self._counts:
            raise ValueError("it does not say that it counts instructions (events: Ir)")
        if self._total is None:
            raise ValueError("the end of the file is missing")
        found = sum(self._own.values())
        if found != self._total:
            raise ValueError(
                f"the lines add up to {found:,} instructions, but the total is {self._total:,}"
            )
        files = {name: of for name, of in self._files.items() if of != _UNKNOWN_FILE}
        return ThreadDump(self._own, self._calls, files)

    def _head(self, line: str) -> None:
        key, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"{line[:40]!r} is not a line of callgrind's format")
        if key == "events":
            if value.split() != ["Ir"]:
                raise ValueError(f"it counts {value.strip()[:40]!r}, not instructions alone")
            self._counts = True
        elif key == "positions" and value.split() != ["line"]:
            raise ValueError(f"it has the positions {value.strip()[:40]!r}, not lines")
        elif key == "totals":
            self._total = _instructions(value.strip() or "0")

    def _costs(self, line: str) -> None:
        position, _, cost = line.partition(" ")
        if not _COST.fullmatch(position):
            raise ValueError(f"{position[:40]!r} is not a position")
        if self._is_of_call:
            self._is_of_call = False
            return
        if self._path is None:
            raise ValueError("instructions without a function")
        if cost:
            self._own[self._path] += _instructions(cost)

    def _call(self, value: str) -> None:
        count, _, _position = value.partition(" ")
        if self._called is None:
            raise ValueError("a call without a function")
        self._calls[self._called] += _instructions(count)
        self._called, self._is_of_call = None, True

    def _object_of(self, value: str) -> str:
        number, name = _numbered(value)
        if name is not None:
            self._objects[number] = _file_name(name)
        return _known(self._objects, number)

    def _path_of(self, value: str) -> CallPath:
        number, name = _numbered(value)
        if name is not None:
            if len(self._paths) >= _MOST_NAMES:
                raise ValueError(f"it has more than {_MOST_NAMES:,} call paths")
            functions = name.count("'") + 1
            self._functions += functions
            if functions > _MOST_OF_A_PATH or self._functions > _MOST_OF_PATHS:
                raise ValueError("its call paths have more functions than any server's")
            self._paths[number] = tuple(map(self._name, reversed(name.split("'"))))
        return _known(self._paths, number)

    def _name(self, symbol: str) -> str:
        known = self._short.get(symbol)
        if known is None:
            known = _BREAKING.sub(" ", short(symbol[:_MOST_OF_A_NAME])).strip()
            known = UNKNOWN if not known or _ADDRESS.fullmatch(known) else known
            self._short[symbol] = known
        return known


def _numbered(value: str) -> tuple[str, str | None]:
    match = _NAMED.fullmatch(value)
    if match is None:
        raise ValueError(f"{value[:40]!r} is not the number of a name")
    return match[1], match[2]


def _known(names: Mapping[str, T], number: str) -> T:
    if number not in names:
        raise ValueError(f"name ({number}) is used before it is defined")
    return names[number]


def _instructions(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{text[:40]!r} is not a number of instructions")
    number = int(text)
    if number > _MOST_INSTRUCTIONS:
        raise ValueError(f"{number:,} instructions are more than a thread executes")
    return number


def _file_name(path: str) -> str:
    """Return a program's or library's name without version, so that builds can be compared."""
    name = path.rpartition("/")[2]
    return _BREAKING.sub(" ", _VERSION.sub(".so", name)).strip() or _UNKNOWN_FILE


def read_dumps(directory: Path) -> dict[int, dict[int, ThreadDump]]:
    """Return the dumps in a directory of a server that has ended: each one's threads, by numbers.

    Raise TrialFailed for files that callgrind does not write.
    """
    close_tree(directory)
    names = [entry.name for entry in os.scandir(directory)]
    numbered = [(numbers, name) for name in names if (numbers := valgrind.dump_of(name))]
    if len(numbered) > _MOST_FILES:
        raise TrialFailed(f"callgrind wrote {len(numbered):,} files")
    found: dict[int, dict[int, ThreadDump]] = {}
    n_bytes = 0
    for (dump, thread), name in sorted(numbered):
        try:
            with open(directory / name, "rb", opener=open_without_links) as file:
                n_bytes += _require_dump(os.fstat(file.fileno()))
                if n_bytes > _MOST_BYTES:
                    raise ValueError(f"all files so far have {n_bytes:,} bytes")
                found.setdefault(dump, {})[thread] = parse(file)
        except (OSError, ValueError) as error:
            raise TrialFailed(f"{name}, which callgrind wrote, cannot be read: {error}") from error
    return found


def _require_dump(status: os.stat_result) -> int:
    """Return the length of a dump. Raise ValueError for what callgrind does not write."""
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    if status.st_size > _FILE_LIMIT_BYTES:
        raise ValueError(f"it has {status.st_size:,} bytes")
    return status.st_size
