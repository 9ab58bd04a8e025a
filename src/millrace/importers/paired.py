"""Read and write CSV files of paired values: one value per treatment and block."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import NamedTuple

from millrace.errors import UserError, nearest
from millrace.importers.csv_reader import Sheet, called, last_digit_unit
from millrace.importers.units import COLUMNS as MEASURE_COLUMNS
from millrace.importers.units import Measure, Measures
from millrace.shown_text import defused_cell, shown

COLUMNS = ("block", "treatment", "value")
_HINT = (
    "a file of pairs has the columns block, treatment and value, separated by commas, and one row "
    "for each trial; unit, direction (higher or lower), operations, errors, retries and skipped "
    "may follow"
)

# The values by treatment and block, both in the order of the file.
Values = Mapping[str, Mapping[str, float]]


class Counts(NamedTuple):
    """The numbers of a trial's operations by outcome; None if unknown.

    ``operations`` succeeded, ``errors`` failed, ``retries`` were repeated, ``skipped`` were not
    sent.
    """

    operations: int | None = None
    errors: int | None = None
    retries: int | None = None
    skipped: int | None = None


class Value(NamedTuple):
    """The measured value of one trial; ``text`` is the number as written in the file, or empty."""

    block: str
    treatment: str
    value: float
    text: str = ""
    counts: Counts = Counts()


@dataclass(frozen=True)
class Imported:
    """The values from another program's files, their unit and direction, and notes for the user."""

    values: tuple[Value, ...]
    measure: Measure
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pairs:
    """The contents of a file of pairs.

    ``work`` has the counts of trials by treatment and block, if the file has a column
    ``operations``. ``unit_of_last_digit`` is the unit to which the values are rounded, 0 if they
    are not rounded.
    """

    values: Values
    work: Mapping[str, Mapping[str, Counts]]
    measure: Measure
    unit_of_last_digit: float


def read(path: Path) -> Pairs:
    """Read the file of pairs at ``path``.

    Raise ValidationError with the lines of all errors, and UserError for a file that cannot be read
    or has only one treatment.
    """
    sheet = Sheet(path, hint=_HINT)
    places = [sheet.column(name) for name in COLUMNS]
    count_places = [sheet.column_if_any(name) for name in Counts._fields]
    measures = Measures(sheet)
    values: dict[str, dict[str, float]] = {}
    work: dict[str, dict[str, Counts]] = {}
    texts: list[str] = []
    first_lines: dict[tuple[str, str], int] = {}
    for line, cells in sheet.rows():
        block, treatment = (sheet.text(line, cells, place) for place in places[:2])
        measures.note(line, cells)
        value = sheet.positive(line, cells, places[2])
        counts = Counts(*(sheet.count(line, cells, place) for place in count_places))
        first = first_lines.setdefault((block, treatment), line)
        if block and treatment and first != line:
            sheet.mistake(
                line,
                "row",
                f"block {block} already has a value of {treatment} in line {first}",
                "one value for each trial",
            )
        elif value is not None:
            values.setdefault(treatment, {})[block] = value
            texts.append(cells[places[2]])
            if any(count is not None for count in counts):
                work.setdefault(treatment, {})[block] = counts
    if len(values) == 1:
        raise UserError(
            f"{called(path)} has only one treatment, {next(iter(values))}, so there is nothing to "
            "compare",
            hint=_HINT,
        )
    return Pairs(values, work, measures.of(), last_digit_unit(texts))


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
    """Return the text of a file of pairs; the rows of ``base`` come first, which marks the base.

    Names are escaped: a carriage return would end the line for some readers, and a spreadsheet
    would evaluate a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    of_trials = zip(*(each.counts for each in values), strict=True)
    known = [any(count is not None for count in of_all) for of_all in of_trials]
    counted = compress(Counts._fields, known)
    writer.writerow((*COLUMNS, *MEASURE_COLUMNS, *counted))
    for each in sorted(values, key=lambda each: each.treatment != base):
        names = (_safe(each.block), _safe(each.treatment))
        number = each.text or repr(each.value)
        counts = ("" if count is None else count for count in compress(each.counts, known))
        row = (*names, number, measure.unit, measure.direction or "", *counts)
        writer.writerow(map(defused_cell, row))
    return text.getvalue()


def _safe(name: str) -> str:
    return shown(name.replace("\r", r"\r"))
