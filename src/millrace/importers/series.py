"""Read series of values, in the order of measurement, from a CSV file."""

from dataclasses import dataclass, field
from pathlib import Path

from millrace.importers.csv_reader import Sheet
from millrace.importers.units import Measure, Measures

_HINT = (
    "a file of a history has the columns label (or time) and value, and series where it holds "
    "several, separated by commas; unit and direction (higher or lower) may follow; "
    "rows are in the order of time"
)


@dataclass
class Series:
    """A series in the file's order; its ``name`` is empty where the file has only one."""

    name: str
    labels: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    measure: Measure = field(default_factory=Measure)


def read(path: Path) -> tuple[Series, ...]:
    """Return the series of the file at ``path``, in the order in which they begin.

    Raises ValidationError with the lines of all errors, UserError for a file that cannot be read.
    """
    sheet = Sheet(path, hint=_HINT)
    label_place, value_place = sheet.column("label", "time"), sheet.column("value")
    series_place = sheet.column_if_any("series")
    measures = Measures(sheet)
    found: dict[str, Series] = {}
    for line, cells in sheet.rows():
        name = "" if series_place is None else sheet.text(line, cells, series_place)
        label = sheet.text(line, cells, label_place)
        measures.note(line, cells, name)
        value = sheet.positive(line, cells, value_place)
        series = found.get(name)
        if series is None:
            series = found[name] = Series(name)
        if value is not None:
            series.labels.append(label)
            series.values.append(value)
    for series in found.values():
        series.measure = measures.of(series.name)
    return tuple(found.values())
