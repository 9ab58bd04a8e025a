"""Tables as plain text cells; each format only draws them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column's head; where space is short, the highest ``drop`` goes first, 0 never."""

    title: str
    numeric: bool = True
    drop: int = 0


@dataclass(frozen=True)
class Row:
    """Cells as shown; ``verdict`` colours the last one, ``is_total`` marks a sum of others."""

    cells: tuple[str, ...]
    verdict: str | None = None
    is_base: bool = False
    is_total: bool = False


@dataclass(frozen=True)
class Section:
    """Rows under one heading, which is empty where there is only one section."""

    heading: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table in sections (a group of the experiment each)."""

    title: str
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]


def text_columns(*titles: str) -> tuple[Column, ...]:
    """Return columns of text that stay whatever the room."""
    return tuple(Column(title, numeric=False) for title in titles)


def plain_table(title: str, columns: Iterable[Column], rows: Iterable[Row]) -> Table:
    """Return a table of one section, without a heading."""
    return Table(title, tuple(columns), (Section("", tuple(rows)),))
