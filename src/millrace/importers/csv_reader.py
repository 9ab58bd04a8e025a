"""Read a CSV file of values, and report every error by line and column."""

import contextlib
import csv
import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from millrace.errors import Diagnostic, UserError, ValidationError
from millrace.quantities import counted
from millrace.shown_text import plain_cell, shown_line

LARGEST_BYTES = 64 << 20
MOST_MISTAKES = 10  # errors of one file; further ones are mostly repetitions


class Sheet:
    """A CSV file that is being read: its columns, its rows, and the errors so far.

    ``hint`` describes the format of the file. Raises UserError for a file that cannot be read or is
    empty, and ValidationError for one that is not CSV.
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
        """Return the place of the first of ``names``; raise ValidationError for none or several."""
        place = self.column_if_any(*names)
        if place is not None:
            return place
        wanted = " or ".join(names)
        has = f"it has {', '.join(self._columns)}" if self._columns else "it is blank"
        if len(self._columns) == 1 and any(sign in self._columns[0] for sign in ";\t|"):
            has = "columns must be separated by commas"
        raise self._last_error(1, "first line", f"has no column {wanted}; {has}")

    def column_if_any(self, *names: str) -> int | None:
        """Return the place as ``column`` does, or None where the file has none of the columns."""
        for name in names:
            if name in self._columns:
                if self._columns.count(name) > 1:
                    raise self._last_error(1, "first line", f"has several columns {name}")
                return self._columns.index(name)
        return None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the cells of each row below the first that is not blank, in order.

        Raises ValidationError at the end if there were errors. The apostrophe before text that
        would be a formula is removed (see ``shown_text``).
        """
        empty = True
        while (cells := self._next()) is not None:
            if not any(cell.strip() for cell in cells):
                continue
            empty = False
            line = self._reader.line_num
            if len(cells) == len(self._columns):
                yield line, [_one_line(plain_cell(cell.strip())) for cell in cells]
            else:
                wanted = f"{len(self._columns)}, as in the first line"
                self.mistake(line, "row", f"has {counted(len(cells), 'cell')}", wanted)
        if empty:
            raise UserError(f"{called(self._path)} has no rows", hint=self._hint)
        self.refuse()

    def text(self, line: int, cells: list[str], place: int) -> str:
        """Return the cell at ``place``; report an empty one."""
        if not cells[place]:
            self.mistake(line, f"column {self._columns[place]}", "is empty")
        return cells[place]

    def positive(self, line: int, cells: list[str], place: int) -> float | None:
        """Return the number in the cell at ``place``; report one that is not above 0 (None)."""
        try:
            return _positive(cells[place])
        except ValueError as error:
            where = f"column {self._columns[place]}"
            self.mistake(line, where, str(error), "a number above 0, such as 1203.5")
        return None

    def mistake(self, line: int, where: str, message: str, expected: str | None = None) -> None:
        """Record an error; raise ValidationError with all when there are too many to continue."""
        self._mistakes.append(Diagnostic(where, message, expected, line=line))
        if len(self._mistakes) == MOST_MISTAKES:
            self._hint += "; there may be more mistakes: reading stopped here"
            self.refuse()

    def refuse(self) -> None:
        """Raise ValidationError if there were errors."""
        if self._mistakes:
            raise ValidationError(called(self._path), self._mistakes, hint=self._hint)

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            line = max(self._reader.line_num, 1)
            raise self._last_error(line, "row", f"is no CSV: {error}") from error

    def _last_error(self, line: int, where: str, message: str) -> ValidationError:
        """Record an error after which nothing can be read, and return it with all before."""
        self.mistake(line, where, message)
        return ValidationError(called(self._path), self._mistakes, hint=self._hint)


def _one_line(cell: str) -> str:
    """Return the text of a cell, with escapes for line ends, by which it would forge a line."""
    return shown_line(cell) if {"\n", "\r"} & set(cell) else cell


def is_input(path: Path) -> bool:
    """Return whether a path stands for standard input."""
    return path == Path("-")


def called(path: Path) -> str:
    """Return the name of a path in messages."""
    return "standard input" if is_input(path) else str(path)


def read_text(path: Path) -> str:
    """Return the text of a user's file (``-``: stdin); raise UserError where it cannot be read."""
    try:
        with (
            contextlib.nullcontext(sys.stdin.buffer) if is_input(path) else path.open("rb") as file
        ):
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise UserError(
                f"{called(path)} is larger than {LARGEST_BYTES:,} bytes",
                hint="give one value a trial, such as its mean or a percentile",
            )
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise UserError(f"there is no file {path}", hint="check its name and place") from None
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


def _positive(text: str) -> float:
    """Return a positive value; raise ValueError, with the reason, for other text."""
    try:
        if "_" in text:  # which Python accepts in a number
            raise ValueError
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number" if text else "is empty") from None
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    if value <= 0:
        raise ValueError(f"{text} is not above 0, and has no ratio")
    return value
