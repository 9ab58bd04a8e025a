"""Compute the differences between two readings of the same counters. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any

from millrace.databases.client import Row

Number = int | float

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_LARGEST = 2**64 - 1  # the largest value of a server's counter


def number(text: object) -> Number | None:
    """Return a value as a number; None if it is not a number or too large for a counter.

    Values that are not numbers are ON, a date, a file position or infinity.
    """
    value = text if isinstance(text, int | float) else _parsed(str(text))
    return value if value is not None and abs(value) <= _LARGEST else None


def _parsed(text: str) -> Number | None:
    matched = _NUMBER.fullmatch(text)
    if matched is None:
        return None
    return float(matched[0]) if matched[1] else int(matched[0])


def split_gauges(
    values: Mapping[str, Number], gauges: Iterable[str]
) -> tuple[dict[str, Number], dict[str, Number]]:
    """Split values into counters and gauges.

    ``gauges`` are names or shell patterns, in any case.
    """
    known = re.compile("|".join(map(translate, gauges)) or r"(?!)", re.IGNORECASE)
    counted = {name: value for name, value in values.items() if not known.match(name)}
    return counted, {name: value for name, value in values.items() if name not in counted}


def increases(before: Mapping[str, Number], after: Mapping[str, Number]) -> dict[str, Number]:
    """Return the increase of each counter, in the order of ``after``.

    Leave out a counter that did not change, that decreased (it wrapped or was reset), or that was
    missing before: its increase is unknown.
    """
    return {
        name: value - before[name]
        for name, value in after.items()
        if name in before and value > before[name]
    }


def by_key(rows: Iterable[Row], counters: Sequence[str]) -> dict[Any, Row]:
    """Return the rows of a summary table by key, with rows of the same key added up.

    MySQL 5.6 creates several rows for a statement that is new to several sessions at once, and
    counts in more than one of them. Columns that are not counters come from the first row. A
    counter that is missing from one of the rows, or that is not a number, is None.
    """
    found: dict[Any, Row] = {}
    for read in rows:
        row = {**read, **{name: number(read[name]) for name in counters if name in read}}
        first = found.setdefault(row["key"], row)
        if first is not row:
            sums = {name: _sum(first.get(name), row.get(name)) for name in counters}
            found[row["key"]] = {**first, **sums}
    return found


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else one + other


def increased_rows(
    before: Mapping[Any, Row], after: Mapping[Any, Row], counters: Sequence[str]
) -> dict[Any, Row]:
    """Return the rows of a summary table whose first counter grew, with the increases.

    A row that was missing before started at 0. Leave out a row in which any counter decreased: the
    summary was truncated. A counter that is missing from either row is None.
    """
    found: dict[Any, Row] = {}
    for key, row in after.items():
        earlier = before.get(key, dict.fromkeys(counters, 0))
        deltas = {
            name: None
            if row.get(name) is None or earlier.get(name) is None
            else row[name] - earlier[name]
            for name in counters
        }
        if deltas[counters[0]] and all(delta is None or delta >= 0 for delta in deltas.values()):
            found[key] = {**row, **deltas}
    return found
