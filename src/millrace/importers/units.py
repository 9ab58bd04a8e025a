"""Find the unit of imported values and their better direction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.importers.csv_reader import Sheet
from millrace.model.measurements import Direction

Basis = Literal["option", "file", "unit", "assumed"]

COLUMNS = ("unit", "direction")
_DIRECTIONS: tuple[Direction, ...] = ("higher", "lower")
_TIMES = re.compile(
    "[nuµμm]?s|secs?|((nano|micro|milli)?second|minute|hour)s?|min|h"  # both signs of micro
)
_INSTRUCTIONS = re.compile(r"instructions?(:\w+)?(\s*(/|per\s)\s*(?P<of>.+))?")
_CLOCKS = re.compile("(clock )?cycles?|clocks?")
_RATES = ("tps", "qps", "rps", "ops", "iops", "hz")


@dataclass(frozen=True)
class Better:
    """The better ``direction`` of values; ``basis`` is an option, a column, the unit or nothing."""

    direction: Direction
    basis: Basis
    unit: str = ""

    def __str__(self) -> str:
        text = f"{self.direction} is better"
        if self.basis == "assumed":
            return f"{text} (assumed: the file does not say; --direction does)"
        return f"{text} (unit {self.unit})" if self.unit else text


@dataclass(frozen=True)
class Measure:
    """The ``unit`` of values, empty where unknown, and their better ``direction``, if stated."""

    unit: str = ""
    direction: Direction | None = None

    def better(self, asked: Direction | None = None) -> Better:
        """Return the ``asked`` direction, else the stated one, else that of the unit, or higher."""
        if asked is not None:
            return Better(asked, "option", self.unit)
        if self.direction is not None:
            return Better(self.direction, "file", self.unit)
        by_unit = _direction_of(self.unit)
        return Better(by_unit or "higher", "unit" if by_unit else "assumed", self.unit)


def counts_instructions(unit: str) -> bool:
    """Return whether values are counted instructions: in all, or of an operation.

    Those of a time or of a clock cycle are speeds.
    """
    found = _INSTRUCTIONS.fullmatch(unit.strip().lower())
    if found is None:
        return False
    return found["of"] is None or not any(each.fullmatch(found["of"]) for each in (_TIMES, _CLOCKS))


class Measures:
    """A collector of the columns ``unit`` and ``direction``; each series has one value of each."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._places = {name: sheet.column_if_any(name) for name in COLUMNS}
        self._found: dict[tuple[str, str], str] = {}

    def note(self, line: int, cells: Sequence[str], series: str = "") -> None:
        """Record the unit and direction of a row; report one that differs from earlier rows."""
        for name, place in self._places.items():
            if place is None:
                continue
            text, where = cells[place], f"column {name}"
            first = self._found.setdefault((series, name), text)
            if name == "direction" and text not in ("", *_DIRECTIONS):
                self._sheet.mistake(line, where, f"{text!r} is no direction", "higher or lower")
            elif text != first:
                expected = f"one {name} in all rows" + (" of a series" if series else "")
                self._sheet.mistake(line, where, f"is {text!r} after {first!r}", expected)

    def of(self, series: str = "") -> Measure:
        """Return the unit and the direction of a series."""
        stated = self._found.get((series, "direction"))
        direction = next((each for each in _DIRECTIONS if each == stated), None)
        return Measure(self._found.get((series, "unit"), ""), direction)


def _direction_of(unit: str) -> Direction | None:
    """Return lower for times (``ms``, ``ns/op``) and instructions, higher for rates (``MB/s``)."""
    name = unit.strip().lower()
    if counts_instructions(unit):
        return "lower"
    if name in _RATES or name.endswith(("/s", "/sec", "/second", " per second")):
        return "higher"
    return "lower" if _TIMES.fullmatch(name.split("/")[0].strip()) else None
