"""Check and write files that commands write: whole or not at all; into a pipe as it comes.

A command replaces an existing file only where it recognises the file as one that it wrote. A kind
without a mark is never recognised: nothing in it tells millrace's file from the user's own.
"""

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from millrace import atomic_file
from millrace.errors import HostError, UserError
from millrace.shared_directories import followed, is_of_us
from millrace.shown_text import shown

_HEAD_BYTES = 4096
_OF_THE_HOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name in errors, and what the head of each such file matches."""

    name: str
    mark: re.Pattern[bytes] | None = None

    def is_kind_of(self, path: Path) -> bool:
        """Return True where the file at ``path`` can be read, and is empty or has this mark."""
        try:
            with path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
        except OSError:
            return False
        if not head or self.mark is None:
            return not head
        return self.mark.search(head) is not None


PAGE = Kind("page", re.compile(rb'<meta name="generator" content="millrace '))
FLAME_GRAPH = Kind("flame graph", re.compile(rb'<svg [^>]*class="flame-graph file"'))
SPEEDSCOPE = Kind("speedscope profile", re.compile(rb'"exporter": "millrace '))
FOLDED = Kind("list of call paths")
PAIRS = Kind("file of pairs")
# A zip whose first member is run 1, deflated, with the only date that millrace gives.
_ARCHIVE = rb"\APK\x03\x04\x14\0\0\0\x08\0\0\0\x21\0.{12}\x0e\0\0\0runs/0001\.json"
ARCHIVE = Kind("results file", re.compile(_ARCHIVE, re.DOTALL))


def write_text(
    path: Path, text: str, kind: Kind, *, make_directory: bool = False, option: str = "--output"
) -> Path:
    """Write ``text``, of a kind, to ``path``, which ``option`` named, and return it.

    Hidden characters are shown. A file, or what a symbolic link leads to, is written in one step:
    where that fails, what was there before is still there. A device, a pipe and our own standard
    output are written to.
    With ``make_directory`` millrace named the place itself: the directory is made, and whatever
    lies there is replaced. Otherwise raises UserError where it can be no file's place, or where
    another file is; and HostError where the host fails to write there.
    """
    target = Path(os.path.realpath(path)) if make_directory else refuse_place(path, kind, option)
    text = shown(text)
    try:
        if _is_stream(path):
            # A reader that has gone (`| head`) has what it wanted.
            with suppress(BrokenPipeError), _opened(path, target) as stream:
                stream.write(text)
            return path
        atomic_file.write_text(target, text, resolved=not make_directory)
    except OSError as cause:
        problem = HostError if cause.errno in _OF_THE_HOST or make_directory else UserError
        raise problem(
            f"cannot write {_asked(kind, option)} {path}: {cause.strerror or cause}",
            hint=f"name another place with {option}",
        ) from cause
    return path


def refuse_place(path: Path, kind: Kind, option: str) -> Path:
    """Return the file that ``path``, named by ``option``, leads to, which may not exist yet.

    Raise UserError where it lacks a directory, is another file, or is another user's pipe or behind
    another user's link.
    Such a link may appear at any time, so what is returned is not looked up by ``path`` again.
    """
    target = _not_behind_a_link_of_others(path, kind, option)
    if _is_stream(path):
        _refuse_pipe_of_others(target, path, kind, option)
        return target
    expected = Path(os.path.realpath(path))
    if expected != target or not target.parent.is_dir():
        missing = expected.parent if expected.parent != target.parent else target
        hint = f"make it first, or name another place with {option}"
        raise _refused(path, kind, option, f"no directory {missing}", hint)
    if target.is_file() and not kind.is_kind_of(target):
        other = "" if kind.mark is None else f", which is not a {kind.name} that millrace wrote"
        why = f"there is a file already{other}; it was left as it is"
        hint = f"name another file with {option}, or move that one away first"
        raise _refused(path, kind, option, why, hint)
    return target


def refuse_replacing(path: Path, kind: Kind, option: str, *, force: bool) -> Path:
    """Return the file like ``refuse_place``; what is there is replaced with ``force`` alone.

    Raise UserError also for a device or a pipe.
    """
    _not_behind_a_link_of_others(path, kind, option)
    if os.path.lexists(path) and not force:
        raise UserError(
            f"{path}: is there already; nothing was written",
            hint=f"name another file with {option}, or replace it with --force",
        )
    if _is_stream(path):
        hint = f"name a file with {option}"
        raise _refused(path, kind, option, "it is not a regular file", hint)
    return refuse_place(path, kind, option)


def _not_behind_a_link_of_others(path: Path, kind: Kind, option: str) -> Path:
    """Return the file that ``path`` leads to. Raise UserError where a link can change under us."""
    target, found = followed(path)
    if found is not None:
        link, owner = found
        why = f"{link} is a link of the user with the number {owner}, who could have it replace"
        hint = f"remove the link, or name a file in a directory of your own with {option}"
        raise _refused(path, kind, option, f"{why} any file", hint)
    return target


def _refuse_pipe_of_others(target: Path, path: Path, kind: Kind, option: str) -> None:
    """Raise UserError for a named pipe of another user, who could read it, or have it wait."""
    try:
        found = target.lstat()
    except OSError:  # a pipe without a name, such as our standard output
        return
    if stat.S_ISFIFO(found.st_mode) and not is_of_us(found):
        why = f"it is a pipe of the user with the number {found.st_uid}"
        hint = f"name a file in a directory of your own with {option}"
        raise _refused(path, kind, option, why, hint)


def _refused(path: Path, kind: Kind, option: str, why: str, hint: str) -> UserError:
    return UserError(f"cannot write {_asked(kind, option)} {path}: {why}", hint=hint)


def _asked(kind: Kind, option: str) -> str:
    if option != "--output":
        return f"what {option} asks for to"
    return "the results file" if kind is ARCHIVE else "the report"


def _is_stream(path: Path) -> bool:
    """Return whether the path is a device, a pipe or our own standard output."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(found.st_mode) or _is_standard_output(found)


def _opened(path: Path, target: Path) -> TextIO:
    """Open the device or pipe that ``path`` led to; OSError for a link or file in its place."""
    # A link of the kernel, such as /proc/self/fd/1, leads to no other name.
    is_of_kernel = target.is_relative_to("/proc")
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC
    handle = os.open(path, flags) if is_of_kernel else os.open(target, flags | os.O_NOFOLLOW)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and not _is_standard_output(found):
        os.close(handle)
        raise OSError(errno.ESTALE, "a file took its place")
    return os.fdopen(handle, "w", encoding="utf-8", newline="")


def _is_standard_output(found: os.stat_result) -> bool:
    """Return whether the shell opened the file for us (``--output /dev/stdout >> log``)."""
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:
        return False  # closed
