"""An explanation in a terminal: the sentences, suspects, the account, what it costs, functions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from millrace.analysis.explanation import Explanation
from millrace.report.explain_sentences import (
    account_notes,
    answer,
    coverage_text,
    disturbance_texts,
    missing_rows,
    title,
)
from millrace.report.explain_tables import account_table, blocked_table, efficiency_table
from millrace.report.profile_tables import functions_table, groups_table
from millrace.report.server_tables import waits_table
from millrace.report.tables import Table
from millrace.report.terminal_table import show_table

_FUNCTIONS = 12
_PLACES = 6  # that threads were blocked in
_MOST = 4  # explanations that are shown in full


def show(explanations: Sequence[Explanation], console: Console) -> None:
    """Print each explanation: the answer first, then what it rests on; the page holds more.

    Of many, the answers alone.
    """
    if len(explanations) > _MOST:
        _show_answers(explanations, console)
        return
    for explanation in explanations:
        _show(explanation, console)


def as_text(explanations: Sequence[Explanation]) -> str:
    """The same without colour, 120 columns wide."""
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    show(explanations, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _show_answers(explanations: Sequence[Explanation], console: Console) -> None:
    for explanation in explanations:
        console.print()
        console.print(Text(title(explanation), style="bold"), soft_wrap=False)
        for sentence in answer(explanation):
            console.print(Padding(Text(sentence), (0, 0, 0, 2)), soft_wrap=False)
    console.print()
    more = "one of them in full: --candidate LEVEL, --workload TEST, --where FACTOR=LEVEL"
    console.print(Text(more, style="dim"), soft_wrap=False)


def _show(e: Explanation, console: Console) -> None:
    labels = (e.base, e.candidate)
    console.print()
    console.print(Text(title(e), style="bold"), soft_wrap=False)
    console.print(Text(f"A is {e.base}, B is {e.candidate}; µs", style="dim"), soft_wrap=False)
    for sentence in answer(e):
        console.print()
        console.print(Text(sentence, style="bold"), soft_wrap=False)
    _show_suspects(e, console)
    if e.differences is not None:
        _show_table(account_table(e.differences, labels, e.noun), console)
        _show_notes(account_notes(e), console)
    blocked = blocked_table(e.blocked, labels, e.noun)
    if blocked is not None:
        _show_table(_first(blocked, _PLACES), console)
    if e.efficiency:
        _show_table(efficiency_table(e.efficiency, labels, e.noun), console)
    waits = waits_table(e.waits, labels, noun=e.noun, title="Largest waits that servers timed")
    if waits is not None:
        _show_table(waits, console)
    coverages = [(side.label, side.coverage) for side in (e.a, e.b)]
    _show_notes([f"{label}: {coverage_text(c)}" for label, c in coverages if c], console)
    for plan in e.plans:
        if plan.different:
            _show_notes([f"plan of {plan.statement}: {each}" for each in plan.different], console)
    if e.profile is not None:
        _show_table(groups_table(e.profile, labels, e.noun), console)
        _show_table(_first(functions_table(e.profile, labels, e.noun), _FUNCTIONS), console)
    _show_footnotes(e, console)


def _show_suspects(e: Explanation, console: Console) -> None:
    if e.suspects:
        console.print()
        console.print(Text("What is likely behind it", style="bold"), soft_wrap=False)
    for number, suspect in enumerate(e.suspects, start=1):
        shown = " (shown by an experiment)" if suspect.shown else ""
        text = Text.assemble(f"{number}. {suspect.sentence}", (shown, "bold"))
        console.print(Padding(text, (0, 0, 0, 2)), soft_wrap=False)
        for line in suspect.evidence:
            console.print(Padding(Text(f"- {line}", style="dim"), (0, 0, 0, 5)), soft_wrap=False)


def _show_table(table: Table, console: Console) -> None:
    console.print()
    console.print(Text(table.title, style="bold"), soft_wrap=False)
    show_table(table, console)


def _show_notes(notes: Sequence[str], console: Console) -> None:
    for note in notes:
        console.print(Text(note, style="dim"), soft_wrap=False)


def _show_footnotes(e: Explanation, console: Console) -> None:
    disturbed, missing = disturbance_texts(e), missing_rows(e)
    if disturbed or missing:
        console.print()
    for line in disturbed:
        console.print(Text.assemble(("disturbed: ", "yellow"), line), soft_wrap=False)
    for what, where, remedy in missing:
        text = Text.assemble(("not seen: ", "yellow"), f"{what} ({where})")
        text.append(f"; {remedy}" if remedy else "")
        console.print(text, soft_wrap=False)


def _first(table: Table, rows: int) -> Table:
    (section,) = table.sections
    return replace(table, sections=(replace(section, rows=section.rows[:rows]),))
