"""A server's error log: its end, its own words for a failure, and signs of trouble."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TAIL_LIMIT_BYTES = 256 * 1024
_PART_LIMIT_BYTES = 2 << 20
_ERROR_LINES_MAX = 6
_LONGEST_LINE_BYTES = 2048  # what patterns look at: their time grows with its square

# A line that tells of an error, in the styles of all versions.
_ERROR_LINE = re.compile(rb"\[ERROR\]|\[FATAL\]|^ERROR: |Fatal error|mysqld: |mariadbd: ", re.I)
_NO_ERROR_LINE = re.compile(rb"\[(?:Note|System)\]", re.I)

# What comes before the words of a line: date, time, process or thread, kind.
_BEFORE_ERROR = re.compile(r"^.*?\[ERROR\]\s*", re.I)
_BEFORE_WORDS = re.compile(
    r"^(?:\d{6}|\d{4}-\d\d-\d\d)?[T ]*\d{1,2}:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC -)?\s+"
    r"(?:(?:0x)?(?=[a-f]*\d)[0-9a-f]++\s+)?(?:\[\w+\]\s*)?"
)

# What a server cannot go on after, or waits on for ever.
_TROUBLE = re.compile(
    rb"disk is full|no space left on device|disk full|errcode: 28\b|error number 28\b"
    rb"|\bgot (?:signal|exception)|assertion failure|\[FATAL\]"
    rb"|intentionally generate a (?:memory|seg)"
    rb"|cannot continue operation|\bis marked as crashed|database page corruption",
    re.I,
)

# (what the log says, what that means). The first that fits is the reason.
_REASONS = (
    (
        re.compile(rb"bind on tcp/ip port.*address already in use|server running on port", re.I),
        "the port {port} is taken by another process",
    ),
    (
        re.compile(
            rb"bind on unix socket|is using unix socket|server running on socket"
            rb"|setup unix socket lock file",
            re.I,
        ),
        "the socket {socket} is taken by another process",
    ),
    (
        re.compile(
            rb"(?:errcode:|error number) 28\b|no space left|disk (?:is )?full"
            # InnoDB guesses this after every short write: not where it names another error.
            rb"|\A(?!.*error number (?!28\b|0\b)\d).*check (?:also )?that the disk is not full",
            re.I | re.S,
        ),
        "the disk is full",
    ),
)


def size(log: Path) -> int:
    """The log's length in bytes; 0 where there is none yet."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def tail(log: Path, n_lines: int) -> str:
    """The last lines of the log."""
    return "\n".join(_text(_read(log, 0)).splitlines()[-n_lines:])


def whole(log: Path) -> bytes | None:
    """Return the log, of a very long one its beginning and its end; None where there is none."""
    try:
        with open(log, "rb", opener=_opened) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= 2 * _PART_LIMIT_BYTES:
                return file.read(2 * _PART_LIMIT_BYTES)
            begin = file.read(_PART_LIMIT_BYTES)
            file.seek(size - _PART_LIMIT_BYTES)
            left_out = f"\n... {size - 2 * _PART_LIMIT_BYTES} bytes are left out here ...\n"
            return begin + left_out.encode() + file.read(_PART_LIMIT_BYTES)
    except FileNotFoundError:
        return None


def errors(log: Path, since: int) -> list[str]:
    """The lines that tell of errors after ``since`` (bytes), the first and most telling ones."""
    return _error_lines(log, since)[:_ERROR_LINES_MAX]


def first_error(log: Path, since: int) -> str | None:
    """The words of the first error after ``since`` (bytes), where one is marked as such."""
    lines = _error_lines(log, since)
    return next((words(line) for line in lines if _BEFORE_ERROR.search(line)), None)


def words(line: str) -> str:
    """What a line says, without its date, time, thread and kind."""
    without, marked = _BEFORE_ERROR.subn("", line)
    return without if marked else _BEFORE_WORDS.sub("", line)


def reason(log: Path, since: int, *, port: int, socket: Path) -> str | None:
    """What the log after ``since`` (bytes) means, where that is known."""
    return _meaning(_read(log, since), port=port, socket=socket)


def reason_of(line: str, *, port: int, socket: Path) -> str | None:
    """What a line of the log means, where that is known."""
    return _meaning(line.encode()[:_LONGEST_LINE_BYTES], port=port, socket=socket)


def _error_lines(log: Path, since: int) -> list[str]:
    lines = [line.strip() for line in _read(log, since).splitlines()]
    return [
        _text(line)
        for line in lines
        if _ERROR_LINE.search(line) and not _NO_ERROR_LINE.search(line)
    ]


def _meaning(text: bytes, *, port: int, socket: Path) -> str | None:
    for pattern, meaning in _REASONS:
        if pattern.search(text):
            return meaning.format(port=port, socket=socket)
    return None


def trouble(log: Path, since: int) -> tuple[str | None, int]:
    """The first line after ``since`` (bytes) that says the server cannot go on, if any, and where
    to look from next time: the end of the last complete line."""
    start, text = _read_from(log, since)
    complete = text[: text.rfind(b"\n") + 1]
    found = [line for line in _cut_lines(complete) if _TROUBLE.search(line)]
    return (_text(found[0].strip()) if found else None), start + len(complete)


def _read(log: Path, since: int) -> bytes:
    return b"\n".join(_cut_lines(_read_from(log, since)[1]))


def _cut_lines(text: bytes) -> list[bytes]:
    return [line[:_LONGEST_LINE_BYTES] for line in text.splitlines()]


def _read_from(log: Path, since: int) -> tuple[int, bytes]:
    """The log after ``since``, at most its last quarter of a megabyte, and where that begins."""
    try:
        with open(log, "rb", opener=_opened) as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(since, end - _TAIL_LIMIT_BYTES))
            return start, file.read(_TAIL_LIMIT_BYTES)
    except FileNotFoundError:
        return since, b""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
