"""Tables in a terminal: at its width, without cutting a cell."""

import textwrap
from collections.abc import Callable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from millrace.report.common.tables import Row, Section, Table
from millrace.shown_text import shown_line

STYLES = {
    "regression": "bold red",
    "improvement": "bold green",
    "equivalent": "cyan",
    "inconclusive": "yellow",
    "may be chance": "yellow",
    "failed": "bold red",
    "base failed": "bold red",
}
_STYLES = {**STYLES, "more": "bold red", "less": "bold green"}
HEAD = 8  # characters of a line of a head that is broken into several
WIDEST = 36  # characters of a cell that are kept on one line where a table hardly fits


def text_line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return a line of parts, each a text or a text with its style; line ends are escaped."""
    pairs = ((each, "") if isinstance(each, str) else each for each in parts)
    return Text.assemble(*((shown_line(text), of_part) for text, of_part in pairs), style=style)


def print_line(
    console: Console, *parts: str | tuple[str, str], style: str = "", indent: int = 0
) -> None:
    """Print a line of parts, as ``text_line`` takes them; what is wrapped keeps the indent."""
    line = text_line(*parts, style=style)
    console.print(Padding(line, (0, 0, 0, indent)) if indent else line, soft_wrap=False)


def show_table(table: Table, console: Console) -> None:
    """Print the table without cutting a cell, however narrow the terminal is.

    Heads are broken into lines first, then columns dropped, then cells broken, at last anywhere.
    """
    unlimited = console.options.update_width(10_000)
    kept = list(range(len(table.columns)))
    drawn = _draw(table, kept, stacked=False)
    everything = max(column.drop for column in table.columns) + 1
    drops = sorted({column.drop for column in table.columns} - {0}, reverse=True)
    for limit in (everything, *drops):
        if console.measure(drawn, options=unlimited).maximum <= console.width:
            break
        kept = [n for n, column in enumerate(table.columns) if column.drop < limit]
        drawn = _draw(table, kept, stacked=True)
    is_any_broken: Sequence[Callable[[str], bool]] = (lambda cell: " " in cell, lambda _: True)
    for breaks in is_any_broken:
        if console.measure(drawn, options=unlimited).minimum <= console.width:
            break
        drawn = _draw(table, kept, stacked=True, breaks=breaks)
    console.print(drawn, soft_wrap=False)


def _draw(
    table: Table,
    kept: list[int],
    *,
    stacked: bool,
    breaks: Callable[[str], bool] = lambda cell: len(cell) > WIDEST,
) -> RichTable:
    """Return a table with the kept columns; a column with a cell that ``breaks`` may wrap."""
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for number in kept:
        column = table.columns[number]
        cells = [
            shown_line(row.cells[number]) for section in table.sections for row in section.rows
        ]
        if number == kept[0]:
            cells += [shown_line(section.heading) for section in table.sections]
        title = shown_line(column.title)
        longest = max(map(len, title.split()), default=0)
        whole = not any(breaks(cell) for cell in cells)
        drawn.add_column(
            Text("\n".join(textwrap.wrap(title, max(HEAD, longest))) if stacked else title),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=whole,
            min_width=max(map(cell_len, cells), default=0) if whole else None,
            vertical="bottom",
        )
    for section in table.sections:
        _add_section(drawn, section, kept)
    return drawn


def _add_section(drawn: RichTable, section: Section, kept: list[int]) -> None:
    if section.heading:
        drawn.add_section()
        drawn.add_row(Text(shown_line(section.heading), style="bold"), *("" for _ in kept[1:]))
    for row in section.rows:
        drawn.add_row(*(_cell(row, number) for number in kept))


def _cell(row: Row, number: int) -> Text:
    is_verdict = row.verdict is not None and number == len(row.cells) - 1
    style = "dim" if row.is_base else "bold" if row.is_total else ""
    if is_verdict:
        style = _STYLES.get(row.verdict or "", "dim")
    return Text(shown_line(row.cells[number]), style=style)
