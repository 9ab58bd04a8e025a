"""Counts of instructions in a terminal: the answers, the table, the functions, the notes."""

from rich.console import Console
from rich.padding import Padding

from millrace.analysis.counts.compare_counts import CountedRun
from millrace.report.common.terminal_table import show_table, text_line
from millrace.report.common.wording import imported_notes
from millrace.report.counts.sentences import notes, sentence
from millrace.report.counts.tables import counts_table, functions_table
from millrace.shown_text import shown_line


def show(found: CountedRun, console: Console) -> None:
    """Print the counts of a run."""
    groups = found.groups
    _line(f"{shown_line(found.run.title or found.experiment)}: instructions", console, "bold")
    console.print()
    for group in groups:
        for comparison in group.comparisons:
            where = f"{group.label}: " if group.label else ""
            _line(f"{where}{sentence(comparison)}.", console, "bold")
    console.print()
    show_table(counts_table(groups, found.run.spec.compare.factor), console)
    for group in groups:
        for comparison in group.comparisons:
            if comparison.functions:
                console.print()
                table = functions_table(comparison)
                where = f"{group.label}: " if group.label else ""
                _line(f"{where}{table.title}", console, "bold")
                show_table(table, console)
    console.print()
    for note in (*imported_notes(found.run), *notes(groups)):
        console.print(Padding(text_line(f"{note}."), (0, 0, 0, 2)), soft_wrap=False)


def _line(text: str, console: Console, style: str) -> None:
    console.print(text_line(text, style=style), soft_wrap=False)
