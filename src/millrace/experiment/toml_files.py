"""Read TOML files that a user wrote, and find the line of each key and list element.

Python's parser does not keep line numbers. A second reader finds them in the valid text; it
recognises only keys, strings, brackets and comments.
"""

import re
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from millrace.errors import Diagnostic, UserError, ValidationError
from millrace.user_files import read_user_file

MOST_BYTES = 4 << 20

_GAP = re.compile(r"(?:[\s,]|#[^\n]*)*")
_KEY = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"((?:\\.|[^"\\])*)"|'([^']*)')\s*(\.?)""")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\])*"|'
    r"'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def read_text(path: Path, noun: str, *, example: str) -> str:
    """Return the text of a file; raise UserError if it is missing, unreadable or not UTF-8.

    ``noun`` is the kind of file for errors; ``example`` is the hint for a missing file.
    """
    try:
        return read_user_file(path, MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{noun} {path} does not exist", hint=example) from None
    except UnicodeDecodeError as error:
        said = f"{path} is not UTF-8 text (byte {error.start})"
        raise UserError(said, hint="save the file as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def parse_toml(path: Path, text: str, *, reference: str) -> dict[str, Any]:
    """Return the content of a TOML text; if it is invalid, raise ValidationError or UserError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        message = str(error).split(" (at ")[0]
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        column = f"column {place[2]}" if place and place[2] else "end of the file"
        diagnostic = Diagnostic(column, f"not TOML: {message}", line=line)
        raise ValidationError(str(path), [diagnostic], hint=reference) from None
    except (ValueError, RecursionError):  # limits of Python's parser
        raise UserError(
            f"{path} has a number with thousands of digits, or too many nested values",
            hint=reference,
        ) from None


def with_lines(found: Iterable[Diagnostic], text: str) -> list[Diagnostic]:
    """Return diagnostics with line numbers, found by their places in a TOML text."""
    lines = key_lines(text)
    return [replace(each, line=each.line or line_of(each.where, lines)) for each in found]


def key_lines(text: str) -> dict[str, int]:
    """Return the line (from 1) of each place, such as ``factors.server[2]``, in a TOML text."""
    reader = _Reader(text)
    reader.document()
    return reader.lines


def line_of(where: str, lines: dict[str, int]) -> int | None:
    """Return the line of ``where`` or of the nearest enclosing place; None if none has a line."""
    while where:
        if where in lines:
            return lines[where]
        where = where[: max(where.rfind("."), where.rfind("["), 0)]
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[str, int] = {}
        self._line_ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table = ""
        tables_in: Counter[str] = Counter()
        while self._skip_gap():
            if self.text.startswith("[[", self.position):
                table = self._header(2, tables_in)
                table = f"{table}[{tables_in[table] - 1}]"
                self._note(table)
            elif self.text.startswith("[", self.position):
                table = self._header(1, tables_in)
                self._note(table)
            else:
                self._assignment(table)

    def _header(self, brackets: int, tables_in: Counter[str]) -> str:
        """Read a header and return its place; within a list of tables, in its last table."""
        self.position += brackets
        place = ""
        keys = self._keys()
        for index, key in enumerate(keys):
            place = joined(place, key)
            self._note(place)
            last = index == len(keys) - 1
            if last and brackets == 2:
                tables_in[place] += 1
            elif place in tables_in:
                place = f"{place}[{tables_in[place] - 1}]"
        self.position += brackets
        return place

    def _assignment(self, table: str) -> None:
        place, start = table, self.position
        for key in self._keys():
            place = joined(place, key)
            self._note(place, start)
        self.position += 1  # the equals sign
        self._value(place)

    def _value(self, place: str) -> None:
        self._skip_gap()
        opening = self.text[self.position]
        if opening == "[":
            self.position += 1
            index = 0
            while self._skip_gap() and self.text[self.position] != "]":
                self._note(f"{place}[{index}]")
                self._value(f"{place}[{index}]")
                index += 1
            self.position += 1
        elif opening == "{":
            self.position += 1
            while self._skip_gap() and self.text[self.position] != "}":
                self._assignment(place)
            self.position += 1
        else:
            pattern = _STRING if opening in "\"'" else _SCALAR
            matched = pattern.match(self.text, self.position)
            assert matched is not None
            self.position = matched.end()

    def _keys(self) -> list[str]:
        keys = []
        while matched := _KEY.match(self.text, self.position):
            self.position = matched.end()
            keys.append(next(part for part in matched.groups()[:3] if part is not None))
            if not matched[4]:
                break
        return keys

    def _skip_gap(self) -> bool:
        matched = _GAP.match(self.text, self.position)
        assert matched is not None
        self.position = matched.end()
        return self.position < len(self.text)

    def _note(self, place: str, position: int | None = None) -> None:
        at = self.position if position is None else position
        self.lines.setdefault(place, bisect_left(self._line_ends, at) + 1)


def joined(place: str, key: str) -> str:
    """Return the place of a key in the table at ``place``."""
    return f"{place}.{key}" if place else key
