"""Read values of treatments that took turns in blocks from a CSV file, and write such a file."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from millrace.errors import UserError, nearest
from millrace.importers.csv_reader import Sheet, called, last_digit_unit
from millrace.importers.units import COLUMNS as MEASURE_COLUMNS
from millrace.importers.units import Measure, Measures
from millrace.shown_text import defused_cell, shown

COLUMNS = ("block", "treatment", "value")
COUNTS = ("operations", "errors", "retries", "skipped")
_HINT = (
    "a file of pairs has the columns block, treatment and value, separated by commas, and one row "
    "for each trial; unit, direction (higher or lower), operations, errors, retries and skipped "
    "may follow"
)

# The values of each treatment by block, treatments and blocks in the order of the file.
Values = Mapping[str, Mapping[str, float]]


class Value(NamedTuple):
    """The measured value of one trial, its text, and what became of its operations.

    ``text`` has the digits as they were written; empty for those of ``value``. ``operations``
    succeeded and ``errors`` failed, ``retries`` were begun again, and ``skipped`` were not sent;
    None where that is not known.
    """

    block: str
    treatment: str
    value: float
    text: str = ""
    operations: int | None = None
    errors: int | None = None
    retries: int | None = None
    skipped: int | None = None

    @property
    def counts(self) -> tuple[int | None, ...]:
        """Return the counts in the order of ``COUNTS``."""
        return self.operations, self.errors, self.retries, self.skipped


@dataclass(frozen=True)
class Imported:
    """The values of another program's files, their measure, and notes for the user."""

    values: tuple[Value, ...]
    measure: Measure
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pairs:
    """A file of pairs.

    ``work`` has the trials' counts by treatment and block, where the file states how many
    operations a trial did; ``unit_of_last_digit`` is that of the values, 0 where they have all
    digits of a floating-point number.
    """

    values: Values
    work: Mapping[str, Mapping[str, Value]]
    measure: Measure
    unit_of_last_digit: float


def read(path: Path) -> Pairs:
    """Read the file of pairs at ``path``.

    Raises ValidationError with the lines of all errors, UserError for a file that cannot be read or
    has a single treatment.
    """
    sheet = Sheet(path, hint=_HINT)
    places = [sheet.column(name) for name in COLUMNS]
    count_places = [sheet.column_if_any(name) for name in COUNTS]
    measures = Measures(sheet)
    values: dict[str, dict[str, float]] = {}
    work: dict[str, dict[str, Value]] = {}
    texts: list[str] = []
    first_lines: dict[tuple[str, str], int] = {}
    for line, cells in sheet.rows():
        block, treatment = (sheet.text(line, cells, place) for place in places[:2])
        measures.note(line, cells)
        value = sheet.positive(line, cells, places[2])
        counts = [sheet.count(line, cells, place) for place in count_places]
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
            texts.append(cells[places[2]])
            if any(count is not None for count in counts):
                trial = Value(block, treatment, value, "", *counts)
                work.setdefault(treatment, {})[block] = trial
    if len(values) == 1:
        raise UserError(
            f"{called(path)} has a single treatment, {next(iter(values))}, so there is nothing to "
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
    """Return the text of a file that ``read`` reads; rows of ``base`` come first and mark the base.

    Names contain no carriage return, which readers take for the end of a line, and no formula for
    a spreadsheet.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counted = [
        place
        for place in range(len(COUNTS))
        if any(each.counts[place] is not None for each in values)
    ]
    writer.writerow((*COLUMNS, *MEASURE_COLUMNS, *(COUNTS[place] for place in counted)))
    for each in sorted(values, key=lambda each: each.treatment != base):
        names = (_safe(each.block), _safe(each.treatment))
        number = each.text or repr(each.value)
        counts = ("" if (count := each.counts[place]) is None else count for place in counted)
        row = (*names, number, measure.unit, measure.direction or "", *counts)
        writer.writerow(map(defused_cell, row))
    return text.getvalue()


def _safe(name: str) -> str:
    return shown(name.replace("\r", r"\r"))
