"""Read values of treatments that took turns in blocks from a CSV file, and write such a file."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from millrace.errors import UserError, nearest
from millrace.importers.csv_reader import Sheet, called
from millrace.importers.units import COLUMNS as MEASURE_COLUMNS
from millrace.importers.units import Measure, Measures
from millrace.shown_text import defused_cell, shown

COLUMNS = ("block", "treatment", "value")
_HINT = (
    "a file of pairs has the columns block, treatment and value, separated by commas, and one row "
    "for each trial; unit and direction (higher or lower) may follow"
)

# The values of each treatment by block, treatments and blocks in the order of the file.
Values = Mapping[str, Mapping[str, float]]


class Value(NamedTuple):
    """The measured value of one trial."""

    block: str
    treatment: str
    value: float


def read(path: Path) -> tuple[Values, Measure]:
    """Return the values in the file at ``path``, with their unit and better direction.

    Raises ValidationError with the lines of all errors, UserError for a file that cannot be read or
    has a single treatment.
    """
    sheet = Sheet(path, hint=_HINT)
    places = [sheet.column(name) for name in COLUMNS]
    measures = Measures(sheet)
    values: dict[str, dict[str, float]] = {}
    first_lines: dict[tuple[str, str], int] = {}
    for line, cells in sheet.rows():
        block, treatment = (sheet.text(line, cells, place) for place in places[:2])
        measures.note(line, cells)
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
            f"{called(path)} has a single treatment, {next(iter(values))}, so there is nothing to "
            "compare",
            hint=_HINT,
        )
    return values, measures.of()


def base_of(where: str, treatments: Collection[str], name: str | None) -> str:
    """Return ``name``, or the first of ``treatments``; raise UserError for an unknown name."""
    if name is None:
        return next(iter(treatments))
    if name not in treatments:
        near = nearest(name, treatments)
        raise UserError(
            f"{where} has no treatment {name!r}",
            hint=f"did you mean {near!r}?" if near else f"it has: {', '.join(treatments)}",
        )
    return name


def as_csv(values: Sequence[Value], measure: Measure, *, base: str) -> str:
    """Return the text of a file that ``read`` reads; rows of ``base`` come first and mark the base.

    Names contain no carriage return, which readers take for the end of a line, and are no formula
    for a spreadsheet.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *MEASURE_COLUMNS))
    for each in sorted(values, key=lambda each: each.treatment != base):
        names = (_safe(each.block), _safe(each.treatment))
        row = (*names, repr(each.value), measure.unit, measure.direction or "")
        writer.writerow(map(defused_cell, row))
    return text.getvalue()


def _safe(name: str) -> str:
    return shown(name.replace("\r", r"\r"))
