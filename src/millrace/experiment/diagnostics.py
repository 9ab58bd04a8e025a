"""Collect every error of an experiment file, and check the types of its values."""

import json
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from millrace.errors import Diagnostic, names_with, nearest, nearest_names
from millrace.experiment.toml_files import joined

Table = Mapping[str, Any]
"""A table of a parsed TOML file; its values are unchecked."""

_MOST_DIAGNOSTICS = 100  # further ones are left out
_MOST_LISTED = 12  # names in one diagnostic

# The command whose `list` shows all names of a kind.
_LISTED = {"server": "servers", "configuration": "config"}


class Diagnostics:
    """The diagnostics of a file so far, without duplicates.

    Callers use the correct spelling of places; diagnostics use the spelling of the file. If a file
    has ``[factrs]`` with ``server = 3``, ``keys`` reports the misspelt ``factrs`` and returns its
    table as ``factors``. If the caller then reports an error at ``factors.server``, the diagnostic
    is at ``factrs.server``.
    """

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._written: dict[str, str] = {}

    def add(
        self, where: str, message: str, expected: str | None = None, near: str | None = None
    ) -> None:
        """Add one diagnostic."""
        self.include(Diagnostic(where, message, expected, near))

    def wrong_value(self, where: str, value: object, expected: str) -> None:
        """Report a value of the wrong type or range."""
        self.add(where, f"got {shown(value)}", expected)

    def include(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic that was found elsewhere."""
        if len(self.diagnostics) >= _MOST_DIAGNOSTICS:
            return
        placed = replace(diagnostic, where=self._as_written(diagnostic.where))
        if placed not in self.diagnostics:
            self.diagnostics.append(placed)

    def has_error_at(self, *places: str) -> bool:
        """Return whether a diagnostic is at, inside or around one of ``places``."""
        return any(
            _within(diagnostic.where, place) or _within(place, diagnostic.where)
            for place in map(self._as_written, places)
            for diagnostic in self.diagnostics
            if not self._is_of_spelling(diagnostic)
        )

    def proposes(self, name: object) -> bool:
        """Return whether ``name`` is the suggested correction of a misspelt level."""
        return any(
            diagnostic.nearest == name and ".factors." in f".{diagnostic.where}"
            for diagnostic in self.diagnostics
        )

    def unknown(self, where: str, noun: str, name: object, known: Iterable[str]) -> None:
        """Report an unknown name, with the known ones."""
        if len(self.diagnostics) >= _MOST_DIAGNOSTICS:
            return  # finding the nearest name takes time
        names = sorted(set(known))
        near = nearest(name, names)
        expected = f"one of {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else None
        if expected is None and near is None and (alike := names_with(name, names)):
            others = ", ..." if len(alike) > _MOST_LISTED else ""
            expected = f"a name such as {', '.join(alike[:_MOST_LISTED])}{others}"
        self.add(where, f"unknown {noun} {name!r}", expected, near)

    def unlisted(self, where: str, noun: str, name: object, known: Collection[str]) -> None:
        """Report an unknown server or configuration, with the command that lists all."""
        if len(self.diagnostics) >= _MOST_DIAGNOSTICS:
            return
        near = nearest_names(name, known)
        others = f", such as {', '.join(near)}" if near else ""
        expected = f"a name that `millrace {_LISTED[noun]} list` shows{others}"
        self.add(where, f"unknown {noun} {name!r}", expected, nearest(name, known))

    def keys(
        self, where: str, table: Table, known: Iterable[str], *, tables: Collection[str] = ()
    ) -> dict[str, Any]:
        """Report unknown keys of ``table``; return it with corrected keys.

        A misspelt key is replaced by the nearest known key if the table does not have that key, and
        if its value is a table exactly for a key of ``tables``. Other unknown keys are left out.
        """
        names = sorted(known)
        meant = {key: value for key, value in table.items() if key in names}
        for key, value in table.items():
            if key in names or len(self.diagnostics) >= _MOST_DIAGNOSTICS:
                continue
            near = nearest(key, names)
            self.add(joined(where, key), "unknown key", f"one of {', '.join(names)}", near)
            if near and near not in meant and isinstance(value, dict) == (near in tables):
                self.alias_place(joined(where, key), joined(where, near))
                meant[near] = value
        return meant

    def text(self, where: str, value: object) -> str | None:
        """Return the value if it is one line of text; else add a diagnostic, return None."""
        if not isinstance(value, str) or not value.strip():
            self.add(where, f"{shown(value)} is not text", "text in quotes")
        elif not is_line(value):
            self.add(where, f"{shown(value)} has control characters", "one line of plain text")
        else:
            return value
        return None

    def boolean(self, where: str, value: object) -> bool:
        """Return the value if it is a boolean; otherwise add a diagnostic and return False."""
        if not isinstance(value, bool):
            self.wrong_value(where, value, "true or false")
        return value is True

    def integer(self, where: str, value: object, minimum: int, maximum: int) -> int | None:
        """Return the value if it is an integer in range; else add a diagnostic, return None."""
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        self.wrong_value(where, value, f"an integer from {minimum} to {maximum}")
        return None

    def number(self, where: str, value: object, above: float, upto: float) -> float | None:
        """Return the value if it is a number in the range; else add a diagnostic, return None."""
        if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= upto:
            return float(value)
        self.wrong_value(where, value, f"a number above {above:g}, to {upto:g}")
        return None

    def table(self, where: str, value: object) -> Table:
        """Return the value if it is a table; else add a diagnostic, return an empty table."""
        if isinstance(value, dict):
            return value
        self.add(where, f"{shown(value)} is not a table", f"a table [{where}]")
        return {}

    def alias_place(self, written: str, meant: str) -> None:
        """Report later diagnostics at ``meant`` with the file's spelling, ``written``."""
        self._written[meant] = self._as_written(written)

    def _as_written(self, place: str) -> str:
        enclosing = [meant for meant in self._written if _within(place, meant)]
        if not enclosing:
            return place
        closest = max(enclosing, key=len)
        return self._written[closest] + place[len(closest) :]

    def _is_of_spelling(self, diagnostic: Diagnostic) -> bool:
        """Return whether a diagnostic only reports a misspelt key whose value is checked too."""
        return diagnostic.nearest is not None and diagnostic.where in self._written.values()


def _within(place: str, outer: str) -> bool:
    return place == outer or place.startswith((f"{outer}.", f"{outer}["))


def is_line(value: str) -> bool:
    """Return whether a text has neither control characters nor line breaks (Unicode Cc, Zl, Zp)."""
    return all(unicodedata.category(character) not in ("Cc", "Zl", "Zp") for character in value)


def shown(value: object) -> str:
    """Return a value in TOML spelling, shortened to 60 characters."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        spelled = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    except ValueError:
        return "a number of thousands of digits"
    return spelled if len(spelled) <= 60 else f"{spelled[:57]}..."
