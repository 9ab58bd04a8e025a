"""An explanation in a terminal: sentences, likely causes, the time breakdown, costs, functions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rich.console import Console

from millrace.analysis.explain.explanation import Explanation, only_compared
from millrace.quantities import counted
from millrace.report import counts
from millrace.report.common.tables import Table
from millrace.report.common.terminal_table import print_line, show_table, text_line
from millrace.report.explanation import causes, sentences, tables
from millrace.report.explanation.ablation import ablation_sentences
from millrace.report.explanation.caveats import NOT_SURE, ONE_BLOCK, caveat_sentences
from millrace.report.explanation.tables import access_text, waits_table

_FUNCTIONS = 12
_PLACES = 6  # that threads were blocked in
_STATEMENTS = 3
_LATENCY = (
    "latency is the mean of the trials; that of the report is of their merged histograms, in which "
    "trials with more operations count for more"
)
_MOST = 4  # explanations that are shown in full


def show(explanations: Sequence[Explanation], console: Console) -> None:
    """Print each explanation, the answer first; of many, the answers alone."""
    if len(explanations) > _MOST:
        _show_answers(explanations, console)
        return
    for explanation in explanations:
        _show(explanation, console)


def _show_answers(explanations: Sequence[Explanation], console: Console) -> None:
    for explanation in explanations:
        _heading(sentences.title(explanation), console)
        for sentence in (*sentences.answer(explanation), *ablation_sentences(explanation)[:1]):
            print_line(console, sentence, indent=2)
        _show_doubts(explanation, console)
    more = "one of them in full: --candidate LEVEL, --test TEST, --where FACTOR=LEVEL, as in"
    _heading(more, console, "dim")
    console.print(text_line(sentences.command(explanations[0]), style="dim"), soft_wrap=True)


def _show(explanation: Explanation, console: Console) -> None:
    e = only_compared(explanation)
    labels = sentences.headings(e)
    _heading(sentences.title(e), console)
    print_line(console, f"A is {e.base}, B is {e.candidate}; µs", style="dim")
    for sentence in sentences.answer(e):
        _heading(sentence, console)
    _show_doubts(e, console)
    _show_likely_causes(e, console)
    _show_ablation(e, console)
    shown = _Tables(console)
    if e.differences is not None:
        shown.add(tables.breakdown_table(e.differences, labels, e.noun))
        _show_notes([_LATENCY, *sentences.breakdown_notes(e)], console)
    statements = tables.statement_breakdown_table(e.statement_breakdown_differences, labels, e.noun)
    if statements is not None:
        shown.add(replace(statements, sections=statements.sections[:_STATEMENTS]))
        others = len(statements.sections) - _STATEMENTS
        more = f"; of {counted(others, 'more statement')} on the page" if others > 0 else ""
        _show_notes([f"{tables.NOTE}{more}"], console)
    shown.add(_first(tables.blocked_table(e.blocked, labels, e.noun), _PLACES))
    shown.add(tables.background_table(e.a.breakdown, e.b.breakdown, labels))
    shown.add(tables.efficiency_table(e.efficiency, labels, e.noun))
    _show_notes([tables.sources_note(e.efficiency)] if e.efficiency else [], console)
    shown.add(waits_table(e.waits, labels, noun=e.noun, title="Largest waits that servers timed"))
    coverages = [(side.label, side.coverage) for side in (e.a, e.b)]
    _show_notes([f"{label}: {sentences.coverage_text(c)}" for label, c in coverages if c], console)
    _show_plans(e, console)
    shown.add(tables.groups_table(e.profile, labels, e.noun))
    shown.add(_first(tables.functions_table(e.profile, labels, e.noun), _FUNCTIONS))
    if e.profile is not None:
        flats = [(side.label, side.flat) for side in (e.a, e.b)]
        _show_notes(tables.profile_notes(e.profile, flats), console)
    _show_instructions(e, shown)
    _show_footnotes(e, console)


def _heading(text: str, console: Console, style: str = "bold") -> None:
    console.print()
    print_line(console, text, style=style)


def _show_doubts(e: Explanation, console: Console) -> None:
    for sentence in caveat_sentences(e):
        _heading(sentence, console, "bold yellow")


def _show_plans(e: Explanation, console: Console) -> None:
    differing = [plan for plan in e.plans if plan.is_of_interest]
    if differing:
        _heading("Plans that are not the same", console)
    for plan in differing:
        for label, side in ((e.base, plan.a), (e.candidate, plan.b)):
            if side is not None:
                _show_notes([f"{plan.statement} in {label}: {access_text(side)}"], console)


def _show_likely_causes(e: Explanation, console: Console) -> None:
    if e.why_no_likely_causes:
        _show_notes([e.why_no_likely_causes], console)
    if e.likely_causes:
        _heading(causes.heading(e), console)
    for number, cause in enumerate(causes.cause_texts(e), start=1):
        shown = " (shown by an experiment)" if cause.is_shown else ""
        print_line(console, f"{number}. {cause.sentence}", (shown, "bold"), indent=2)
        for line in cause.details:
            print_line(console, f"- {line}", style="dim", indent=5)
    if command := causes.ablating(e):
        print_line(console, command, style="dim")


def _show_ablation(e: Explanation, console: Console) -> None:
    lines = ablation_sentences(e)
    if lines:
        _heading("What an experiment showed", console)
    for line in lines:
        print_line(console, line, indent=2)


@dataclass
class _Tables:
    """The tables of an explanation, each with notes on new words in its last column."""

    console: Console
    explained: set[str] = field(default_factory=set)

    def add(self, table: Table | None) -> None:
        if table is None:
            return
        _heading(table.title, self.console)
        show_table(table, self.console)
        verdicts = {row.verdict for section in table.sections for row in section.rows}
        notes = {"not sure": NOT_SURE, tables.UNTESTED: ONE_BLOCK}
        new = [name for name in notes if name in verdicts - self.explained]
        self.explained.update(new)
        _show_notes([notes[name] for name in new], self.console)


def _show_instructions(e: Explanation, shown: _Tables) -> None:
    found = e.instructions
    if found is None:
        return
    _heading(f"Instructions: {counts.sentence(found)}.", shown.console)
    if found.functions:
        shown.add(_first(counts.functions_table(found), _FUNCTIONS))
    _show_notes([f"{note}." for note in counts.comparison_notes(found)], shown.console)


def _show_notes(notes: Sequence[str], console: Console) -> None:
    for note in notes:
        print_line(console, note, style="dim")


def _show_footnotes(e: Explanation, console: Console) -> None:
    disturbed, missing = sentences.disturbance_texts(e), sentences.missing_rows(e)
    if disturbed or missing:
        console.print()
    for line in disturbed:
        print_line(console, ("disturbed: ", "yellow"), line)
    for what, where, hint in missing:
        lack = f"{what} ({where})" + (f"; {hint}" if hint else "")
        print_line(console, ("not seen: ", "yellow"), lack)


def _first(table: Table | None, rows: int) -> Table | None:
    if table is None:
        return None
    (section,) = table.sections
    return replace(table, sections=(replace(section, rows=section.rows[:rows]),))
