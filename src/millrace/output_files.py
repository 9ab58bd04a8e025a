"""Check and write the output files of commands, atomically unless the target is a pipe or device.

A command replaces an existing file only if it recognises the file as one that millrace wrote. Files
of a kind without a mark are never replaced, because nothing distinguishes them from other files.
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
    """A kind of file: its name in errors, and a pattern that its first bytes match."""

    name: str
    mark: re.Pattern[bytes] | None = None

    def is_kind_of(self, path: Path) -> bool:
        """Return whether the file at ``path`` is readable, and is empty or has the mark."""
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
# A zip whose first member is run 1, deflated, with the fixed date of millrace's archives.
_ARCHIVE = rb"\APK\x03\x04\x14\0\0\0\x08\0\0\0\x21\0.{12}\x0e\0\0\0runs/0001\.json"
ARCHIVE = Kind("results file", re.compile(_ARCHIVE, re.DOTALL))


def write_text(
    path: Path, text: str, kind: Kind, *, make_directory: bool = False, option: str = "--output"
) -> Path:
    """Write ``text`` to ``path``, which the user gave with ``option``, and return ``path``.

    Hidden characters become visible escapes. A file, or the target of a symbolic link, is replaced
    atomically. Text for a device, a pipe or standard output is written directly.

    Raise UserError if the path is not usable or another file is there, HostError if writing fails.
    With ``make_directory``, millrace chose the path itself: create the directory, and replace any
    file.
    """
    target = Path(os.path.realpath(path)) if make_directory else refuse_place(path, kind, option)
    text = shown(text)
    try:
        if _is_stream(path):
            # A reader such as `head` may stop early.
            with suppress(BrokenPipeError), _opened(path, target) as stream:
                stream.write(text)
            return path
        atomic_file.write_text(target, text, resolved=not make_directory)
    except OSError as cause:
        problem = HostError if cause.errno in _OF_THE_HOST or make_directory else UserError
        raise problem(
            f"cannot write {_asked(kind, option)} {path}: {cause.strerror or cause}",
            hint=f"choose another path with {option}",
        ) from cause
    return path


def refuse_place(path: Path, kind: Kind, option: str) -> Path:
    """Return the file to which ``path``, given with ``option``, resolves; it may not exist yet.

    Raise UserError if its directory does not exist, another file is there, or the path leads over
    another user's link or pipe. Use only the returned path: another user may add a link to ``path``
    at any time.
    """
    target = _not_behind_a_link_of_others(path, kind, option)
    if _is_stream(path):
        _refuse_pipe_of_others(target, path, kind, option)
        return target
    expected = Path(os.path.realpath(path))
    if expected != target or not target.parent.is_dir():
        missing = expected.parent if expected.parent != target.parent else target
        hint = f"create it first, or choose another path with {option}"
        raise _refused(path, kind, option, f"no directory {missing}", hint)
    if target.is_file() and not kind.is_kind_of(target):
        other = "" if kind.mark is None else f", which is not a {kind.name} that millrace wrote"
        why = f"the file exists{other}; it was not changed"
        hint = f"choose another file with {option}, or move the existing one away first"
        raise _refused(path, kind, option, why, hint)
    return target


def refuse_replacing(path: Path, kind: Kind, option: str, *, force: bool) -> Path:
    """Return the file like ``refuse_place``, for a file that only ``force`` may replace.

    Also raise UserError for a device or a pipe, and without ``force`` for any existing file.
    """
    _not_behind_a_link_of_others(path, kind, option)
    if os.path.lexists(path) and not force:
        raise UserError(
            f"{path}: the file exists; nothing was written",
            hint=f"choose another file with {option}, or replace it with --force",
        )
    if _is_stream(path):
        hint = f"choose a regular file with {option}"
        raise _refused(path, kind, option, "it is not a regular file", hint)
    return refuse_place(path, kind, option)


def _not_behind_a_link_of_others(path: Path, kind: Kind, option: str) -> Path:
    """Return the file to which ``path`` resolves; raise UserError for another user's link."""
    target, found = followed(path)
    if found is not None:
        link, owner = found
        why = f"{link} is a symbolic link of uid {owner}, who could redirect it to any file"
        hint = f"remove the link, or choose a file in a directory of your own with {option}"
        raise _refused(path, kind, option, why, hint)
    return target


def _refuse_pipe_of_others(target: Path, path: Path, kind: Kind, option: str) -> None:
    """Raise UserError for a named pipe of another user, who could read from it or block it."""
    try:
        found = target.lstat()
    except OSError:  # a pipe without a name, such as our standard output
        return
    if stat.S_ISFIFO(found.st_mode) and not is_of_us(found):
        why = f"it is a named pipe of uid {found.st_uid}"
        hint = f"choose a file in a directory of your own with {option}"
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
    """Open the device or pipe ``target``; raise OSError if a link or a file replaced it."""
    # A link in /proc, such as /proc/self/fd/1, must be opened by its own name.
    is_of_kernel = target.is_relative_to("/proc")
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC
    handle = os.open(path, flags) if is_of_kernel else os.open(target, flags | os.O_NOFOLLOW)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and not _is_standard_output(found):
        os.close(handle)
        raise OSError(errno.ESTALE, "a file took its place")
    return os.fdopen(handle, "w", encoding="utf-8", newline="")


def _is_standard_output(found: os.stat_result) -> bool:
    """Return whether the file is our standard output (``--output /dev/stdout >> log``)."""
    try:
        return os.path.samestat(found, os.fstat(1))
    except OSError:
        return False  # closed
