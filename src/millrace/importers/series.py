"""Read series of values from a CSV file, and sort their rows by time.

Rows with times (a column ``time``, or labels that are dates) are sorted by time, because many
programs write the newest row first. Other rows keep the order of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from millrace.importers import times
from millrace.importers.csv_reader import Sheet, last_digit_unit
from millrace.importers.units import Measure, Measures

_HINT = (
    "a file of a history has the columns label (or time) and value, and series if it has several, "
    "separated by commas; unit and direction (higher or lower) may follow; rows without times must "
    "be in the order of time"
)


@dataclass(frozen=True)
class Series:
    """A series in the order of time; ``name`` is empty if the file has only one series.

    ``is_sorted`` is set if the rows of the file were in another order. ``unit_of_last_digit`` is
    the unit to which the values are rounded, 0 if they are not rounded.
    """

    name: str
    labels: list[str]
    values: list[float]
    measure: Measure
    unit_of_last_digit: float
    is_sorted: bool


class _Row(NamedTuple):
    line: int
    time: str
    text: str
    label: str
    value: float


def read(path: Path) -> tuple[Series, ...]:
    """Return the series of the file at ``path``, in the order in which they begin.

    Raise ValidationError with the lines of all errors, and UserError for a file that cannot be
    read.
    """
    sheet = Sheet(path, hint=_HINT)
    label_place, value_place = sheet.column("label", "time"), sheet.column("value")
    time_place = sheet.column_if_any("time")
    series_place = sheet.column_if_any("series")
    measures = Measures(sheet)
    found: dict[str, list[_Row]] = {}
    for line, cells in sheet.rows():
        name = "" if series_place is None else sheet.text(line, cells, series_place)
        label = sheet.text(line, cells, label_place)
        time = label if time_place is None else sheet.text(line, cells, time_place)
        measures.note(line, cells, name)
        value = sheet.positive(line, cells, value_place)
        rows = found.setdefault(name, [])
        if value is not None:
            rows.append(_Row(line, time, cells[value_place], label, value))
    return tuple(
        _series(sheet, name, rows, measures.of(name), has_times=time_place is not None)
        for name, rows in found.items()
    )


def _series(
    sheet: Sheet, name: str, rows: Sequence[_Row], measure: Measure, *, has_times: bool
) -> Series:
    places = _places(sheet, rows, has_times=has_times)
    return Series(
        name,
        [rows[place].label for place in places],
        [rows[place].value for place in places],
        measure,
        last_digit_unit(row.text for row in rows),
        places != list(range(len(places))),
    )


def _places(sheet: Sheet, rows: Sequence[_Row], *, has_times: bool) -> list[int]:
    """Return the indices of the rows in the order of time, or of the file without times.

    Raise ValidationError if only some rows have a time, or if times are ambiguous.
    """
    column = "column time" if has_times else "column label"
    try:
        instants = times.times([row.time for row in rows], numbers=has_times)
    except times.Ambiguous:
        raise sheet.last_error(
            rows[0].line,
            column,
            f"{rows[0].time!r} is ambiguous (day or month first); write dates as 2026-01-31",
        ) from None
    if instants is not None:
        return times.order(instants)
    if has_times:
        _refuse_mixed(sheet, rows)
    return list(range(len(rows)))


def _refuse_mixed(sheet: Sheet, rows: Sequence[_Row]) -> None:
    """Raise ValidationError for the first row without a time, if other rows have one."""
    are_times = [times.times([row.time], numbers=True) is not None for row in rows]
    if any(are_times):
        place = are_times.index(False) if not all(are_times) else len(are_times) - 1
        raise sheet.last_error(
            rows[place].line,
            "column time",
            f"{rows[place].time!r} is not a time in the format of other rows",
        )
