"""Values of treatments that took turns in blocks, from a CSV file and into one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from millrace.errors import UserError, nearest
from millrace.foreign.sheet import Sheet

COLUMNS = ("block", "treatment", "value")
_REMEDY = (
    "a file of pairs has the columns block, treatment and value, separated by commas, and one row "
    "for each trial"
)

# The values of each treatment by block, treatments and blocks in the order of the file.
Values = Mapping[str, Mapping[str, float]]


class Value(NamedTuple):
    """What one trial measured."""

    block: str
    treatment: str
    value: float


def read(path: Path) -> Values:
    """The values in the file at ``path``.

    Raises InvalidInput with the lines of all mistakes, UserError for a file that cannot be read or
    has a single treatment.
    """
    sheet = Sheet(path, remedy=_REMEDY)
    places = [sheet.column(name) for name in COLUMNS]
    values: dict[str, dict[str, float]] = {}
    first_lines: dict[tuple[str, str], int] = {}
    for line, cells in sheet.rows():
        block, treatment = (sheet.text(line, cells, place) for place in places[:2])
        value = sheet.positive(line, cells, places[2])
        first = first_lines.setdefault((block, treatment), line)
        if block and treatment and first != line:
            sheet.mistake(
                line,
                "row",
                f"block {block} had a value of {treatment} in line {first} already",
                "one value for each trial",
            )
        elif value is not None:
            values.setdefault(treatment, {})[block] = value
    if len(values) == 1:
        raise UserError(
            f"{path} has a single treatment, {next(iter(values))}, so there is nothing to compare",
            remedy=_REMEDY,
        )
    return values


def base_of(path: Path, values: Values, name: str | None) -> str:
    """The treatment ``name``, or the first of the file; UserError where there is none such."""
    if name is None:
        return next(iter(values))
    if name not in values:
        near = nearest(name, values)
        raise UserError(
            f"{path} has no treatment {name!r}",
            remedy=f"did you mean {near!r}?" if near else f"it has: {', '.join(values)}",
        )
    return name


def as_csv(values: Iterable[Value]) -> str:
    """A file that ``read`` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((each.block, each.treatment, repr(each.value)) for each in values)
    return text.getvalue()
