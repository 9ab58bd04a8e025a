"""Read a server's error log: its end, the reasons for a failure, and signs of trouble."""

import os
from pathlib import Path

from millrace.databases.base import LogPatterns
from millrace.servers.instances.closing import open_without_links

_TAIL_LIMIT_BYTES = 256 * 1024
_PART_LIMIT_BYTES = 2 << 20
_ERROR_LINES_MAX = 6
_LONGEST_LINE_BYTES = 2048  # a limit because matching takes quadratic time


class ErrorLog:
    """The error log of a server; ``patterns`` define what its lines mean.

    A phase (initialise, start, stop) has the messages since it began. Meanings mention ``port`` and
    ``socket``. ``searched_to`` is the offset in bytes from which to search for trouble.
    """

    def __init__(self, path: Path, patterns: LogPatterns, *, port: int, socket: Path) -> None:
        self.searched_to = 0
        self._path = path
        self._patterns = patterns
        self._places = {"port": port, "socket": socket}
        self._phase_began_at = 0

    def begin_phase(self) -> None:
        """Begin a phase: only later messages belong to it."""
        self._phase_began_at = self._path.stat().st_size if self._path.exists() else 0

    def begin_start(self) -> None:
        """Search for trouble from the beginning of the phase."""
        self.searched_to = self._phase_began_at

    def tail(self, n_lines: int) -> str:
        return "\n".join(_text(_read(self._path, 0)).splitlines()[-n_lines:])

    def errors(self) -> list[str]:
        """Return the first lines of the phase that report errors."""
        return self._error_lines()[:_ERROR_LINES_MAX]

    def first_error(self) -> str | None:
        """Return the message of the first error in the phase, or None."""
        before = self._patterns.before_error
        return next((self.words(line) for line in self._error_lines() if before.search(line)), None)

    def words(self, line: str) -> str:
        """Return a line's message without date, time, thread and severity."""
        without, marked = self._patterns.before_error.subn("", line)
        return without if marked else self._patterns.before_words.sub("", line)

    def meaning(self) -> str | None:
        """Return the meaning of the phase's messages; None if unknown."""
        return self._meaning(_read(self._path, self._phase_began_at))

    def describe(self, line: str) -> str:
        """Return a line's message, preceded by its meaning if known."""
        known, said = self._meaning(line.encode()[:_LONGEST_LINE_BYTES]), self.words(line)
        return f"{known}; the log says: {said}" if known else said

    def explain(self, what: str, trouble: str | None = None) -> str:
        """Return a description of a failure: ``what`` happened, its meaning, and the first errors.

        If the meaning is unknown, the first line quotes ``trouble`` (a line of the log) or the
        first error, because reports show only the first line.
        """
        known = self.meaning()
        said = self.first_error() if trouble is None else self.words(trouble)
        unknown = f"{what}; the log says: {said}" if said else what
        first = f"{known}; {what}" if known else unknown
        return "\n".join((first, *(f"  {line}" for line in self.errors())))

    def new_trouble(self) -> str | None:
        """Return the first new line that shows that the server cannot continue, or None."""
        start, text = _read_from(self._path, self.searched_to)
        complete = text[: text.rfind(b"\n") + 1]
        self.searched_to = start + len(complete)
        found = (line for line in _cut_lines(complete) if self._patterns.trouble.search(line))
        line = next(found, None)
        return None if line is None else _text(line.strip())

    def _error_lines(self) -> list[str]:
        lines = [line.strip() for line in _read(self._path, self._phase_began_at).splitlines()]
        error, no_error = self._patterns.error, self._patterns.no_error
        return [_text(line) for line in lines if error.search(line) and not no_error.search(line)]

    def _meaning(self, text: bytes) -> str | None:
        reasons = self._patterns.reasons
        found = (meaning for pattern, meaning in reasons if pattern.search(text))
        meaning = next(found, None)
        return None if meaning is None else meaning.format(**self._places)


def whole(log: Path) -> bytes | None:
    """Return the log, or the beginning and end of a long one; None if it does not exist."""
    try:
        with open(log, "rb", opener=open_without_links) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= 2 * _PART_LIMIT_BYTES:
                return file.read(2 * _PART_LIMIT_BYTES)
            begin = file.read(_PART_LIMIT_BYTES)
            file.seek(size - _PART_LIMIT_BYTES)
            left_out = f"\n... {size - 2 * _PART_LIMIT_BYTES} bytes omitted ...\n"
            return begin + left_out.encode() + file.read(_PART_LIMIT_BYTES)
    except FileNotFoundError:
        return None


def _read(log: Path, since: int) -> bytes:
    return b"\n".join(_cut_lines(_read_from(log, since)[1]))


def _cut_lines(text: bytes) -> list[bytes]:
    return [line[:_LONGEST_LINE_BYTES] for line in text.splitlines()]


def _read_from(log: Path, since: int) -> tuple[int, bytes]:
    """Return the log after offset ``since``, at most its last 256 KiB, and where that starts."""
    try:
        with open(log, "rb", opener=open_without_links) as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(since, end - _TAIL_LIMIT_BYTES))
            return start, file.read(_TAIL_LIMIT_BYTES)
    except FileNotFoundError:
        return since, b""


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
