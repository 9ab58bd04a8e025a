"""The report in a terminal: the answer, the table, and a sentence for each verdict."""

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.published import published_comparison
from millrace.model.measurements import BYTES_PER_ROW, DROP_TIME, THROUGHPUT_OF_LOOPS
from millrace.report.calibration import head_line
from millrace.report.common.formatting import GLYPHS
from millrace.report.common.tables import Table
from millrace.report.common.terminal_table import STYLES, print_line, show_table, text_line
from millrace.report.run import dependence, notes
from millrace.report.run.doubts import DOUBT, doubts
from millrace.report.run.drive_tables import driven_tables
from millrace.report.run.full_disk_tables import full_disk_tables
from millrace.report.run.matrix import Cell, Matrix, is_large, matrix
from millrace.report.run.sentences import answer, sentence, verdict_text
from millrace.report.run.tables import published_table, results_table, sizes_table
from millrace.report.run.undecided import next_step
from millrace.report.run.units import readable
from millrace.shown_text import shown_line

_SHORT = 12  # rows


def show(analysis: RunAnalysis, console: Console) -> None:
    """Print the report, the answer first; a large run has one table with all comparisons."""
    analysis = readable(analysis)
    run = analysis.run
    console.print()
    _line(shown_line(run.title or run.name), console)
    _line(notes.subtitle(analysis), console, "dim")
    if (calibrated := head_line(analysis)) is not None:
        _line(calibrated, console, "dim")
    console.print()
    _line(answer(analysis), console)
    for doubt in doubts(analysis):
        _line(f"{DOUBT}: {doubt}", console, "yellow")
    _line(next_step(analysis), console, "dim")
    console.print()
    for table in full_disk_tables(analysis)[:1]:  # the details are pages long
        _line(table.title, console)
        show_table(table, console)
        console.print()
    if is_large(analysis):
        _show_overview(analysis, console)
    else:
        show_table(results_table(analysis, analysis.headline, analysis.time), console)
        _show_tables(analysis, console)
        console.print()
        _show_sentences(analysis, console)
    _show_dependence(analysis, console)
    _show_published(analysis, console)
    _show_notes(analysis, console)


def as_text(analysis: RunAnalysis) -> str:
    """Return the report as text without colours, 120 columns wide."""
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    show(analysis, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _line(text: str, console: Console, style: str = "bold") -> None:
    if text:
        print_line(console, text, style=style)


def _titled(table: Table, console: Console) -> None:
    """Print a table below an empty line and its title."""
    console.print()
    _line(table.title, console)
    show_table(table, console)


def _show_overview(analysis: RunAnalysis, console: Console) -> None:
    overview = matrix(analysis, analysis.headline)
    _line(overview.title, console)
    draw_matrix(overview, console)
    signs = ", ".join(
        f"{GLYPHS[verdict]} {verdict}" for verdict in STYLES if verdict != "base failed"
    )
    better = "above" if analysis.headline.direction == "higher" else "below"
    _line(f"candidate / base, {better} 1 is better; {signs}", console, "dim")
    command = f"millrace report {analysis.run.id} --format html"
    _line(f"intervals, latencies and every treatment: {command}", console, "dim")


def _show_tables(analysis: RunAnalysis, console: Console) -> None:
    """Print the tables of driven clients, and those of sizes and further metrics if compared."""
    has_sizes = any(metric.name == BYTES_PER_ROW for metric in analysis.metrics)
    others = (
        results_table(analysis, metric, None)
        for metric in analysis.metrics
        if metric.name in (THROUGHPUT_OF_LOOPS, DROP_TIME) and metric != analysis.headline
    )
    sizes = sizes_table(analysis) if has_sizes else None
    for table in filter(None, (*driven_tables(analysis), sizes, *others)):
        _titled(table, console)


def _show_sentences(analysis: RunAnalysis, console: Console) -> None:
    for comparison in analysis.comparisons():
        text = text_line(sentence(comparison, analysis))
        if comparison.verdict is not None:
            verdict = verdict_text(comparison)
            text.highlight_words([verdict], STYLES[verdict])
        console.print(Padding(text, (0, 0, 0, 2)), soft_wrap=False)


def _show_dependence(analysis: RunAnalysis, console: Console) -> None:
    """Print what differences depend on; its table where that is short."""
    found = dependence.dependence_part(analysis)
    if found is None:
        return
    console.print()
    _line(dependence.TITLE, console)
    for line in found.sentences:
        print_line(console, line, indent=2)
    if sum(len(section.rows) for section in found.table.sections) <= _SHORT:
        console.print()
        show_table(found.table, console)


def _show_published(analysis: RunAnalysis, console: Console) -> None:
    study = published_comparison(analysis)
    table = published_table(analysis, study, analysis.headline) if study else None
    if study is None or table is None:
        return
    console.print()
    _line(f"Published beside measured: {study.title} ({study.host})", console)
    show_table(table, console)


def _show_notes(analysis: RunAnalysis, console: Console) -> None:
    warnings, conditions = notes.warnings(analysis), notes.conditions(analysis)
    counts = notes.counted_lines(analysis)
    if warnings or conditions or counts:
        console.print()
    for kind, style, lines in (
        ("note: ", "yellow", warnings),
        ("measured: ", "dim", conditions),
        ("counted: ", "dim", counts),
        ("failed: ", "bold red", notes.failure_lines(analysis)),
    ):
        for line in lines:
            print_line(console, (kind, style), line)


def draw_matrix(matrix: Matrix, console: Console) -> None:
    """Print the matrix; columns that do not fit into the terminal follow below."""
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


def _table(matrix: Matrix, kept: Sequence[int]) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    drawn.add_column(shown_line(matrix.corner), no_wrap=True, vertical="bottom")
    for number in kept:
        column = matrix.columns[number]
        # A server's name has two lines, family and version; below the base's is its unit.
        lines = shown_line(column.label).split("-", 1)
        head = Text("\n".join([*lines, column.unit] if column.unit else lines))
        drawn.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    for section in matrix.sections:
        if section.heading:
            drawn.add_section()
            drawn.add_row(text_line(section.heading, style="bold"), *("" for _ in kept))
        for row in section.rows:
            cells = (_cell(row.cells[number]) for number in kept)
            drawn.add_row(text_line(row.label), *cells)
    return drawn


def _cell(cell: Cell) -> Text:
    if cell.verdict is None:
        return text_line(cell.text, style="dim")
    return text_line(f"{GLYPHS[cell.verdict]} {cell.text}", style=STYLES.get(cell.verdict, "dim"))
