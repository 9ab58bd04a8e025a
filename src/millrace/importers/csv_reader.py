"""Read a CSV file of values, and report all errors with line and column."""

import contextlib
import csv
import io
import math
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from millrace.errors import Diagnostic, UserError, ValidationError
from millrace.quantities import counted
from millrace.shown_text import plain_cell, shown_line

LARGEST_BYTES = 64 << 20
MOST_ROWS = 200_000
MOST_DIGITS = 18  # of a count
MOST_MISTAKES = 10  # reported errors of one file; further errors are mostly repetitions

_FLOAT_DIGITS = 14  # a number with more digits is a float that was not rounded
_STDIN = Path("/dev/stdin")


class Sheet:
    """A CSV file that is being read: its columns, its rows, and the errors so far.

    ``hint`` describes the expected format. Creating a Sheet raises UserError if the file cannot be
    read or is empty, and ValidationError if it is not CSV.
    """

    def __init__(self, path: Path, *, hint: str) -> None:
        self._path = path
        self._hint = hint
        self._mistakes: list[Diagnostic] = []
        self._reader = csv.reader(io.StringIO(read_text(path)), strict=True)
        head = self._next()
        if head is None:
            raise UserError(f"{called(path)} is empty", hint=hint)
        self._columns = [cell.strip() for cell in head]

    def column(self, *names: str) -> int:
        """Return the index of the first of ``names`` that is a column.

        Raise ValidationError if none is a column, or if several columns have this name.
        """
        place = self.column_if_any(*names)
        if place is not None:
            return place
        wanted = " or ".join(names)
        has = f"it has {', '.join(self._columns)}" if self._columns else "it is blank"
        if len(self._columns) == 1 and any(sign in self._columns[0] for sign in ";\t|"):
            has = "columns must be separated by commas"
        raise self.last_error(1, "first line", f"has no column {wanted}; {has}")

    def column_if_any(self, *names: str) -> int | None:
        """Return the index as ``column`` does, or None if none of ``names`` is a column."""
        for name in names:
            if name in self._columns:
                if self._columns.count(name) > 1:
                    raise self.last_error(1, "first line", f"has several columns {name}")
                return self._columns.index(name)
        return None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each non-blank row below the first, in order.

        Raise ValidationError at the end if there were errors. An apostrophe that keeps a
        spreadsheet from reading text as a formula is removed (see ``shown_text``).
        """
        empty = True
        n_rows = 0
        while (cells := self._next()) is not None:
            if not any(cell.strip() for cell in cells):
                continue
            empty = False
            line = self._reader.line_num
            n_rows += 1
            if n_rows > MOST_ROWS:
                raise UserError(
                    f"{called(self._path)} has more than {MOST_ROWS:,} rows",
                    hint="give one value per trial, such as its mean or a percentile",
                )
            if len(cells) == len(self._columns):
                yield line, [_one_line(plain_cell(cell.strip())) for cell in cells]
            else:
                wanted = f"{len(self._columns)}, as in the first line"
                self.mistake(line, "row", f"has {counted(len(cells), 'cell')}", wanted)
        if empty:
            raise UserError(f"{called(self._path)} has no rows", hint=self._hint)
        self.refuse()

    def text(self, line: int, cells: list[str], place: int) -> str:
        """Return the cell at ``place``; record an error if it is empty."""
        if not cells[place]:
            self.mistake(line, f"column {self._columns[place]}", "is empty")
        return cells[place]

    def positive(self, line: int, cells: list[str], place: int) -> float | None:
        """Return the number at ``place``; if it is not above 0, record an error and return None."""
        try:
            return _positive(cells[place])
        except ValueError as error:
            where = f"column {self._columns[place]}"
            self.mistake(line, where, str(error), "a number above 0, such as 1203.5")
        return None

    def count(self, line: int, cells: list[str], place: int | None) -> int | None:
        """Return the count at ``place``; None for an empty cell or a missing column.

        Record an error, and return None, if the cell is not a whole number from 0.
        """
        if place is None or not cells[place]:
            return None
        if cells[place].isascii() and cells[place].isdigit() and len(cells[place]) <= MOST_DIGITS:
            return int(cells[place])
        where = f"column {self._columns[place]}"
        self.mistake(line, where, f"{cells[place]!r} is not a count", "a whole number, such as 12")
        return None

    def mistake(self, line: int, where: str, message: str, expected: str | None = None) -> None:
        """Record an error; raise ValidationError with all errors when there are too many."""
        self._mistakes.append(Diagnostic(where, message, expected, line=line))
        if len(self._mistakes) == MOST_MISTAKES:
            self._hint += "; reading stopped here, so there may be more errors"
            self.refuse()

    def refuse(self) -> None:
        """Raise ValidationError with the recorded errors, if there are any."""
        if self._mistakes:
            raise ValidationError(called(self._path), self._mistakes, hint=self._hint)

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            line = max(self._reader.line_num, 1)
            raise self.last_error(line, "row", f"is not CSV: {error}") from error

    def last_error(self, line: int, where: str, message: str) -> ValidationError:
        """Record an error that stops the reading; return the exception with all recorded errors."""
        self.mistake(line, where, message)
        return ValidationError(called(self._path), self._mistakes, hint=self._hint)


def _one_line(cell: str) -> str:
    """Return the text of a cell with escaped line ends, so that it cannot forge an output line."""
    return shown_line(cell) if {"\n", "\r"} & set(cell) else cell


def is_input(path: Path) -> bool:
    """Return whether a path means standard input (``-``)."""
    return path == Path("-")


def called(path: Path) -> str:
    """Return the name of a path for messages."""
    return "standard input" if is_input(path) else str(path)


def read_text(path: Path) -> str:
    """Return the text of a user's file (``-``: stdin); raise UserError if it cannot be read."""
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if is_input(path) else _opened(path) as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise UserError(
                f"{called(path)} is larger than {LARGEST_BYTES:,} bytes",
                hint="give one value per trial, such as its mean or a percentile",
            )
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", hint="check the path") from None
    except IsADirectoryError:
        raise UserError(f"{called(path)} is a directory", hint="name a file in it") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{called(path)} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{called(path)} cannot be read: {reason}", hint="check its name and permissions"
        ) from None
    if (place := text.find("\0")) >= 0:
        raise UserError(
            f"{called(path)} is not text: character {place + 1} is NUL",
            hint="name a text file, saved as UTF-8",
        )
    return text


def _opened(path: Path) -> BinaryIO:
    """Open a regular file or an inherited pipe; raise UserError for other kinds, such as a FIFO."""
    is_open = path.is_relative_to("/dev/fd") or path.is_relative_to("/proc") or path == _STDIN
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if is_open else os.O_NONBLOCK))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (is_open and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise UserError(
        f"{called(path)} is {kind}, not a file",
        hint=f"give a file, or read standard input: `- < {shlex.quote(str(path))}`",
    )


def last_digit_unit(texts: Iterable[str]) -> float:
    """Return the unit of the last digit to which the numbers ``texts`` are rounded, at most 1.

    The number with the most decimals counts, since many programs drop trailing zeros. Return 0 if
    a number was not rounded (it has all digits of a float).
    """
    least = 0
    for text in texts:
        number = Decimal(text).as_tuple()
        if len(number.digits) > _FLOAT_DIGITS or not isinstance(number.exponent, int):
            return 0.0
        if not text.endswith(".0"):  # Python appends .0 to whole numbers
            least = min(least, number.exponent)
    return float(Decimal(1).scaleb(least))


def _positive(text: str) -> float:
    """Parse a positive number; raise ValueError with the reason for other text."""
    try:
        if "_" in text:  # Python accepts 1_000
            raise ValueError
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number" if text else "is empty") from None
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    if value <= 0:
        raise ValueError(f"{text} is not above 0, so it has no ratio")
    return value
