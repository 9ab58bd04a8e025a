"""Read a server's error log: its end, its reasons for a failure, and signs of trouble."""

from __future__ import annotations

import os
from pathlib import Path

from millrace.databases.base import LogPatterns
from millrace.servers.instances.closing import open_without_links

_TAIL_LIMIT_BYTES = 256 * 1024
_PART_LIMIT_BYTES = 2 << 20
_ERROR_LINES_MAX = 6
_LONGEST_LINE_BYTES = 2048  # the limit for patterns, whose time grows with its square


def size(log: Path) -> int:
    """Return the log's length in bytes; 0 where there is none yet."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def tail(log: Path, n_lines: int) -> str:
    """Return the last lines of the log."""
    return "\n".join(_text(_read(log, 0)).splitlines()[-n_lines:])


def whole(log: Path) -> bytes | None:
    """Return the log, or the beginning and end of a very long one; None where there is none."""
    try:
        with open(log, "rb", opener=open_without_links) as file:
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


def errors(log: Path, since: int, patterns: LogPatterns) -> list[str]:
    """Return the first lines after ``since`` (bytes) that report errors."""
    return _error_lines(log, since, patterns)[:_ERROR_LINES_MAX]


def first_error(log: Path, since: int, patterns: LogPatterns) -> str | None:
    """Return the message of the first marked error after ``since`` (bytes), or None."""
    lines = _error_lines(log, since, patterns)
    marked = (line for line in lines if patterns.before_error.search(line))
    return next((words(line, patterns) for line in marked), None)


def words(line: str, patterns: LogPatterns) -> str:
    """Return the message of a line, without its date, time, thread and kind."""
    without, marked = patterns.before_error.subn("", line)
    return without if marked else patterns.before_words.sub("", line)


def meaning(log: Path, since: int, patterns: LogPatterns, *, port: int, socket: Path) -> str | None:
    """Return the meaning of the log after ``since`` (bytes); None where it is unknown."""
    return _meaning(_read(log, since), patterns, port=port, socket=socket)


def meaning_and_words(line: str, patterns: LogPatterns, *, port: int, socket: Path) -> str:
    """Return the meaning of a line of the log, where it is known, and its message."""
    cut = line.encode()[:_LONGEST_LINE_BYTES]
    known = _meaning(cut, patterns, port=port, socket=socket)
    said = words(line, patterns)
    return f"{known}; the log says: {said}" if known else said


def explain(
    what: str,
    log: Path,
    since: int,
    patterns: LogPatterns,
    *,
    said: str | None,
    port: int,
    socket: Path,
) -> str:
    """Return ``what`` happened, with the meaning of the log after ``since`` and its first errors.

    Where the meaning is unknown, the first line has ``said`` or the first error of the log: a
    report's sentence shows only the first line.
    """
    known = meaning(log, since, patterns, port=port, socket=socket)
    said = said or first_error(log, since, patterns)
    unknown = f"{what}; the log says: {said}" if said else what
    first = f"{known}; {what}" if known else unknown
    return "\n".join((first, *(f"  {line}" for line in errors(log, since, patterns))))


def _error_lines(log: Path, since: int, patterns: LogPatterns) -> list[str]:
    lines = [line.strip() for line in _read(log, since).splitlines()]
    return [
        _text(line)
        for line in lines
        if patterns.error.search(line) and not patterns.no_error.search(line)
    ]


def _meaning(text: bytes, patterns: LogPatterns, *, port: int, socket: Path) -> str | None:
    for pattern, meaning in patterns.reasons:
        if pattern.search(text):
            return meaning.format(port=port, socket=socket)
    return None


def trouble(log: Path, since: int, patterns: LogPatterns) -> tuple[str | None, int]:
    """Return the first line after ``since`` that says why the server cannot continue, or None.

    Also return the offset in bytes from which to search next time: the end of the last complete
    line.
    """
    start, text = _read_from(log, since)
    complete = text[: text.rfind(b"\n") + 1]
    found = [line for line in _cut_lines(complete) if patterns.trouble.search(line)]
    return (_text(found[0].strip()) if found else None), start + len(complete)


def _read(log: Path, since: int) -> bytes:
    return b"\n".join(_cut_lines(_read_from(log, since)[1]))


def _cut_lines(text: bytes) -> list[bytes]:
    return [line[:_LONGEST_LINE_BYTES] for line in text.splitlines()]


def _read_from(log: Path, since: int) -> tuple[int, bytes]:
    """Return the offset and the text of the log after ``since``, at most its last 256 KiB."""
    try:
        with open(log, "rb", opener=open_without_links) as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(since, end - _TAIL_LIMIT_BYTES))
            return start, file.read(_TAIL_LIMIT_BYTES)
    except FileNotFoundError:
        return since, b""


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
