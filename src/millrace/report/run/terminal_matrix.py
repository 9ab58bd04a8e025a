"""The overview of a large run in a terminal: as many columns side by side as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.report.common.formatting import GLYPHS
from millrace.report.common.terminal_table import STYLES
from millrace.report.run.matrix import Cell, Matrix, MatrixColumn
from millrace.shown_text import shown_line


def draw_matrix(matrix: Matrix, console: Console) -> None:
    """Print it; where a terminal is too narrow, columns that have no room follow below."""
    unlimited = console.options.update_width(10_000)
    waiting = list(range(len(matrix.columns)))
    while waiting:
        taken = len(waiting)
        while (
            taken > 1
            and console.measure(_table(matrix, waiting[:taken]), options=unlimited).maximum
            > console.width
        ):
            taken -= 1
        console.print(_table(matrix, waiting[:taken]), soft_wrap=False)
        waiting = waiting[taken:]


def _table(matrix: Matrix, kept: Sequence[int]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column(shown_line(matrix.corner), no_wrap=True, vertical="bottom")
    for number in kept:
        drawn.add_column(
            _head(matrix.columns[number]), justify="right", no_wrap=True, vertical="bottom"
        )
    for section in matrix.sections:
        if section.heading:
            drawn.add_section()
            drawn.add_row(Text(shown_line(section.heading), style="bold"), *("" for _ in kept))
        for row in section.rows:
            drawn.add_row(
                Text(shown_line(row.label)), *(_cell(row.cells[number]) for number in kept)
            )
    return drawn


def _head(column: MatrixColumn) -> Text:
    """Return the server's name in two lines, family and version; below the base's its unit."""
    lines = shown_line(column.label).split("-", 1)
    return Text("\n".join([*lines, column.unit] if column.unit else lines))


def _cell(cell: Cell) -> Text:
    if cell.verdict is None:
        return Text(cell.text, style="dim")
    return Text(f"{GLYPHS[cell.verdict]} {cell.text}", style=STYLES.get(cell.verdict, "dim"))
