"""Collecting every mistake of an experiment file, and the small checks that all keys share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millrace.errors import Mistake, nearest


class Mistakes:
    """Mistakes found so far; the same one is kept once."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(
        self, where: str, message: str, expected: str | None = None, near: str | None = None
    ) -> None:
        """Note one mistake."""
        mistake = Mistake(where, message, expected, near)
        if mistake not in self.found:
            self.found.append(mistake)

    def about(self, place: str) -> bool:
        """Whether something at or below ``place``, at any scale, was noted already."""
        return any(
            f".{mistake.where}".startswith(f".{place}") or f".{place}" in mistake.where
            for mistake in self.found
        )

    def unknown(self, where: str, noun: str, name: object, known: Iterable[str]) -> None:
        """Note a name that does not exist, with those that do."""
        names = sorted(set(known))
        expected = f"one of {', '.join(names)}" if 0 < len(names) <= 12 else None
        self.add(where, f"there is no {noun} {name!r}", expected, nearest(name, names))

    def keys(self, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every key of ``table`` that is not ``known``."""
        for key in table:
            if key not in known:
                names = sorted(known)
                place = f"{where}.{key}" if where else key
                self.add(place, "unknown key", f"one of {', '.join(names)}", nearest(key, names))


def text(mistakes: Mistakes, where: str, value: object) -> str | None:
    """A non-empty text, or None and a mistake."""
    if isinstance(value, str) and value.strip():
        return value
    mistakes.add(where, f"{shown(value)} is not text", "text in quotes")
    return None


def integer(
    mistakes: Mistakes, where: str, value: object, minimum: int, maximum: int
) -> int | None:
    """An integer within its range, or None and a mistake."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
        return value
    mistakes.add(where, f"{shown(value)} is not right", f"an integer from {minimum} to {maximum}")
    return None


def number(
    mistakes: Mistakes, where: str, value: object, above: float, upto: float
) -> float | None:
    """A number above ``above`` and not beyond ``upto``, or None and a mistake."""
    if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= upto:
        return float(value)
    mistakes.add(where, f"{shown(value)} is not right", f"a number above {above:g}, to {upto:g}")
    return None


def table(mistakes: Mistakes, where: str, value: object) -> Mapping[str, Any]:
    """A table, or an empty one and a mistake."""
    if isinstance(value, dict):
        return value
    mistakes.add(where, f"{shown(value)} is not a table", f"a table [{where}]")
    return {}


def shown(value: object) -> str:
    """A value as the file would spell it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    spelled = f'"{value}"' if isinstance(value, str) else str(value)
    return spelled if len(spelled) <= 60 else f"{spelled[:57]}..."
