"""The report in a terminal: the answer, the table, a sentence a verdict."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from millrace.analysis.model import RunAnalysis
from millrace.report import drive_notes, notes
from millrace.report.drive_tables import cost_table, latency_table
from millrace.report.formatting import GLYPHS
from millrace.report.matrix import is_large, matrix
from millrace.report.published import published_beside
from millrace.report.sentences import answer, sentence, verdict_text
from millrace.report.tables import Row, Section, Table, published_table, results_table
from millrace.report.terminal_matrix import STYLES, draw_matrix
from millrace.report.units import readable

HEAD = 8  # characters of a line of a head that is broken into several
WIDEST = 36  # characters of a cell that are kept on one line where a table hardly fits


def show(analysis: RunAnalysis, console: Console) -> None:
    """Print the report: the answer first, then what it rests on.

    Of a large run the comparisons are shown in one table; the other formats hold all of it.
    """
    analysis = readable(analysis)
    run = analysis.run
    console.print()
    console.print(Text(run.title or run.name, style="bold"), soft_wrap=False)
    console.print(Text(notes.subtitle(analysis), style="dim"), soft_wrap=False)
    console.print()
    console.print(Text(answer(analysis), style="bold"), soft_wrap=False)
    console.print()
    if is_large(analysis):
        _show_overview(analysis, console)
    else:
        _show_table(results_table(analysis, analysis.headline, analysis.time), console)
        _show_driven(analysis, console)
        console.print()
        _show_sentences(analysis, console)
    _show_published(analysis, console)
    _show_notes(analysis, console)


def as_text(analysis: RunAnalysis) -> str:
    """The same without colour, 120 columns wide."""
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    show(analysis, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _show_table(table: Table, console: Console) -> None:
    """The table; where the terminal is narrow, with heads in several lines, then fewer columns,
    then cells broken at spaces, at last anywhere. No cell is cut."""
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
    for breaks in (_has_spaces, _is_any):
        if console.measure(drawn, options=unlimited).minimum <= console.width:
            break
        drawn = _draw(table, kept, stacked=True, breaks=breaks)
    console.print(drawn, soft_wrap=False)


def _show_overview(analysis: RunAnalysis, console: Console) -> None:
    overview = matrix(analysis, analysis.headline)
    console.print(Text(overview.title, style="bold"), soft_wrap=False)
    draw_matrix(overview, console)
    signs = ", ".join(
        f"{GLYPHS[verdict]} {verdict}" for verdict in STYLES if verdict != "base failed"
    )
    better = "above" if analysis.headline.direction == "higher" else "below"
    key = f"candidate / base, {better} 1 is better; {signs}"
    console.print(Text(key, style="dim"), soft_wrap=False)
    more = (
        f"intervals, latencies and every treatment: millrace report {analysis.run.id} --format html"
    )
    console.print(Text(more, style="dim"), soft_wrap=False)


def _show_driven(analysis: RunAnalysis, console: Console) -> None:
    """Latencies and CPU time, where clients were driven."""
    for table in (latency_table(analysis, "transaction"), cost_table(analysis)):
        if table is not None:
            console.print()
            console.print(Text(table.title, style="bold"), soft_wrap=False)
            _show_table(table, console)


def _is_long(cell: str) -> bool:
    return len(cell) > WIDEST


def _has_spaces(cell: str) -> bool:
    return " " in cell


def _is_any(_cell: str) -> bool:
    return True


def _draw(
    table: Table, kept: list[int], *, stacked: bool, breaks: Callable[[str], bool] = _is_long
) -> RichTable:
    """The kept columns; one may be broken into lines if it has a cell that ``breaks``."""
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for number in kept:
        column = table.columns[number]
        cells = [row.cells[number] for section in table.sections for row in section.rows]
        if number == kept[0]:
            cells += [section.heading for section in table.sections]
        whole = not any(breaks(cell) for cell in cells)
        drawn.add_column(
            Text("\n".join(_stack(column.title)) if stacked else column.title),
            justify="right" if column.numeric else "left",
            overflow="fold",
            no_wrap=whole,
            min_width=max(map(cell_len, cells), default=0) if whole else None,
            vertical="bottom",
        )
    for section in table.sections:
        _add_section(drawn, section, kept)
    return drawn


def _stack(title: str) -> list[str]:
    """A head in lines that are no longer than its longest word, or a word of usual length."""
    longest = max(map(len, title.split()))
    return textwrap.wrap(title, max(longest, HEAD))


def _add_section(drawn: RichTable, section: Section, kept: list[int]) -> None:
    if section.heading:
        drawn.add_section()
        drawn.add_row(Text(section.heading, style="bold"), *("" for _ in kept[1:]))
    for row in section.rows:
        drawn.add_row(*(_cell(row, number) for number in kept))


def _cell(row: Row, number: int) -> Text:
    is_verdict = row.verdict is not None and number == len(row.cells) - 1
    style = STYLES.get(row.verdict or "", "dim") if is_verdict else "dim" if row.is_base else ""
    return Text(row.cells[number], style=style)


def _show_sentences(analysis: RunAnalysis, console: Console) -> None:
    for comparison in analysis.comparisons():
        text = Text(sentence(comparison, analysis))
        if comparison.verdict is not None:
            verdict = verdict_text(comparison)
            text.highlight_words([verdict], STYLES[verdict])
        console.print(Padding(text, (0, 0, 0, 2)), soft_wrap=False)


def _show_published(analysis: RunAnalysis, console: Console) -> None:
    study = published_beside(analysis)
    table = published_table(analysis, study, analysis.headline) if study else None
    if study is None or table is None:
        return
    console.print()
    title = f"Published beside measured: {study.title} ({study.host})"
    console.print(Text(title, style="bold"), soft_wrap=False)
    _show_table(table, console)


def _show_notes(analysis: RunAnalysis, console: Console) -> None:
    lines, conditions = notes.warnings(analysis), drive_notes.conditions(analysis)
    if lines or conditions:
        console.print()
    for line in lines:
        console.print(Text.assemble(("note: ", "yellow"), line), soft_wrap=False)
    for line in conditions:
        console.print(Text.assemble(("measured: ", "dim"), line), soft_wrap=False)
    for line in notes.failure_lines(analysis):
        console.print(Text.assemble(("failed: ", "bold red"), line), soft_wrap=False)
