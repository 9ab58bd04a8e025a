"""Counts of instructions as sentences, tables, a flame graph and JSON; none calls them speed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from millrace.analysis.counts import model
from millrace.analysis.counts.compare_counts import CountedRun
from millrace.analysis.explain.call_tree import Path, call_tree
from millrace.levels import Level, factor_text
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.flame_graph import FlameGraph, Scale, flame_graph
from millrace.report.common.json_parts import From, JsonPart, part
from millrace.report.common.tables import Column, Row, Section, Table, plain_table
from millrace.report.common.terminal_table import print_line, show_table
from millrace.report.common.wording import imported_notes
from millrace.shown_text import shown_line
from millrace.stats.ratio import RatioEstimate
from millrace.store.records import Origin

NOT_SPEED = (
    "Instructions are not speed: caches, branch prediction and the compiler decide how long each "
    "takes"
)
_LIMITS = (
    f"{NOT_SPEED}. A count sees neither the kernel, nor I/O, nor waits for locks; the threads of a "
    "server run one at a time"
)
_NARROW = 0.002  # of an interval, whose ends would look alike with one decimal


def fraction_text(fraction: float, *, is_exact: bool = False) -> str:
    """Return text such as ``6.5 %``, ``0.04 %``: two decimals below 1 %, or where it is exact."""
    percent = 100 * abs(fraction)
    return f"{percent:.{2 if is_exact or percent < 0.995 else 1}f} %"


def sentence(comparison: model.CountComparison) -> str:
    """Say how the instructions of a comparison differ."""
    a, b, ratio = comparison.base, comparison.candidate, comparison.ratio
    if ratio is None or a.mean is None or b.mean is None:
        without = [each for each in (a, b) if each.refusal is not None]
        return "; ".join(f"{each.label} has no count: {each.refusal}" for each in without)
    means = f"{formatting.grouped_text(b.mean)} and {formatting.grouped_text(a.mean)} per statement"
    return counts_sentence(a.label, b.label, ratio, means=means, evidence="start")


def counts_sentence(a: str, b: str, ratio: RatioEstimate, *, means: str, evidence: str) -> str:
    """Say how the instructions of B differ from A's; ``evidence`` is what a value is of."""
    if ratio.low is None or ratio.high is None:
        return (
            f"{b} executed {_change(ratio.ratio, a)} in a single {evidence} "
            f"({means}), which does not show how much {evidence}s differ"
        )
    if ratio.low == ratio.high == 1:
        return f"{b} executes exactly as many instructions as {a} ({means})"
    if not ratio.excludes_1:
        widest = max(ratio.high - 1, 1 - ratio.low)
        return (
            f"{b} executes as many instructions as {a}, to within {fraction_text(widest)} ({means})"
        )
    change, between = _interval(ratio.ratio, ratio.low, ratio.high, a)
    return f"{b} executes {change} ({between}; {means})"


def change_sentence(ratio: float, low: float, high: float) -> str:
    """Say how many more instructions a new level has than the one before."""
    change, between = _interval(ratio, low, high, "before")
    return f"{change} ({between})"


def _interval(ratio: float, low: float, high: float, base: str) -> tuple[str, str]:
    """Return ``6.5 % more instructions than A``, and the interval.

    That is text such as ``6.4 % to 6.6 %``, ``−0.1 % to 13.1 %``, ``4,300 to 4,700 times``.
    """
    is_exact = high - low < _NARROW
    if low == high:
        return _change(ratio, base, is_exact=is_exact), "all counts alike"
    if all(map(formatting.is_multiple, (low, ratio, high))):
        return _change(ratio, base), formatting.times_interval_text(low, high)
    sign = 1 if ratio > 1 else -1
    ends = sorted((sign * (low - 1), sign * (high - 1)))
    texts = (f"{'−' if end < 0 else ''}{fraction_text(end, is_exact=is_exact)}" for end in ends)
    return _change(ratio, base, is_exact=is_exact), " to ".join(texts)


def _change(ratio: float, base: str, *, is_exact: bool = False) -> str:
    """Return text such as ``6.5 % more instructions than A``."""
    if formatting.is_multiple(ratio):
        how, than = ("as many", "as") if ratio > 1 else ("fewer", "than")
        return f"{formatting.amount_text(ratio)} {how} instructions {than} {base}"
    size = fraction_text(ratio - 1, is_exact=is_exact)
    return f"{size} {'more' if ratio > 1 else 'fewer'} instructions than {base}"


def comparison_notes(comparison: model.CountComparison) -> Iterator[str]:
    """Yield what a reader of one comparison must know."""
    counts = (comparison.base, comparison.candidate)
    return notes((model.CountGroup("", counts, (comparison,)),))


def notes(groups: tuple[model.CountGroup, ...]) -> Iterator[str]:
    """Yield what a reader of the counts must know, each once."""
    said: dict[str, None] = {}
    for group in groups:
        for count in group.counts:
            said.update(dict.fromkeys(_of_count(count)))
        for comparison in group.comparisons:
            said.update(dict.fromkeys(comparison.notes))
    yield from said
    yield _LIMITS


def _of_count(count: model.TreatmentCount) -> Iterator[str]:
    if count.left_out and count.refusal is None:
        yield (
            f"{count.label}: {counted(count.left_out, 'start')} left out, which failed or whose "
            "repetitions of the same statements differ"
        )


def counts_table(groups: Sequence[model.CountGroup], factor: str) -> Table:
    """Return instructions per statement of all treatments, with their ratios to the base."""
    columns = (
        Column(factor_text(factor), numeric=False),
        Column("instructions per statement"),
        Column("spread of starts"),
        Column("starts", drop=1),
        Column("background threads", drop=2),
        Column("ratio to base"),
        Column("95 % interval"),
        Column("verdict", numeric=False),
    )
    sections = []
    for group in groups:
        compared = {each.candidate.label: each for each in group.comparisons}
        rows = (_row(count, compared.get(count.label)) for count in group.counts)
        sections.append(Section(group.label, tuple(rows)))
    return Table("instructions per statement", columns, tuple(sections))


def _row(count: model.TreatmentCount, comparison: model.CountComparison | None) -> Row:
    ratio = None if comparison is None else comparison.ratio
    verdict = "base" if comparison is None else comparison.verdict
    if count.refusal is not None:
        verdict = "refused"
    cells = (
        count.label,
        formatting.known_text(count.mean, formatting.grouped_text),
        formatting.known_text(count.spread, fraction_text),
        str(len(count.values)),
        formatting.known_text(count.background, formatting.grouped_text),
        formatting.MISSING if ratio is None else formatting.ratio_text(ratio.ratio),
        formatting.MISSING if ratio is None else formatting.interval_text(ratio.low, ratio.high),
        verdict,
    )
    return Row(cells, verdict=verdict, is_base=comparison is None)


def functions_table(comparison: model.CountComparison) -> Table:
    """Return the functions that make the difference, the largest first."""
    columns = (
        Column("difference"),
        Column("A"),
        Column("B"),
        Column("function", numeric=False),
        Column("called by", numeric=False),
    )
    title = (
        f"where {comparison.base.label} (A) and {comparison.candidate.label} (B) differ, "
        "instructions per statement, with all that a function calls"
    )
    return plain_table(title, columns, map(_function_row, comparison.functions))


def _function_row(function: model.FunctionDifference) -> Row:
    library = function.file is not None and function.file.endswith(".so")
    name = f"{function.name} ({function.file})" if library else function.name
    if function.only is not None:
        name += f", only in {function.only}"
    return Row(
        (
            difference_text(function),
            formatting.grouped_text(function.a),
            formatting.grouped_text(function.b),
            name,
            _caller(function),
        )
    )


def difference_text(function: model.FunctionDifference) -> str:
    """Return text such as ``+8,300``, ``−12``: instructions of a statement, B less A."""
    sign = "+" if function.difference > 0 else "−"
    return f"{sign}{formatting.grouped_text(abs(function.difference))}"


def _caller(function: model.FunctionDifference) -> str:
    """Return the caller with the largest difference, and the number of others."""
    if not function.callers:
        return formatting.MISSING
    more = f", {function.places - 1} more" if function.places > 1 else ""
    return f"{function.callers[-1]}{more}"


def show(found: CountedRun, console: Console) -> None:
    """Print the counts of a run."""
    groups = found.groups
    print_line(
        console, f"{shown_line(found.run.title or found.experiment)}: instructions", style="bold"
    )
    console.print()
    for group in groups:
        for comparison in group.comparisons:
            where = f"{group.label}: " if group.label else ""
            print_line(console, f"{where}{sentence(comparison)}.", style="bold")
    console.print()
    show_table(counts_table(groups, found.run.spec.compare.factor), console)
    for group in groups:
        for comparison in group.comparisons:
            if comparison.functions:
                console.print()
                table = functions_table(comparison)
                where = f"{group.label}: " if group.label else ""
                print_line(console, f"{where}{table.title}", style="bold")
                show_table(table, console)
    console.print()
    for note in (*imported_notes(found.run), *notes(groups)):
        print_line(console, f"{note}.", indent=2)


_INSTRUCTIONS = Scale("instructions", "instructions per statement", "instructions per statement")


def count_graph(comparison: model.CountComparison) -> FlameGraph:
    """Return the graphs of a base (A) and its candidate (B)."""
    return flame_graph(
        call_tree(_paths(comparison.base), _paths(comparison.candidate)),
        a=comparison.base.label,
        b=comparison.candidate.label,
        heading="Instructions",
        scale=_INSTRUCTIONS,
    )


def _paths(count: model.TreatmentCount) -> Mapping[Path, float]:
    """Return the call paths with the program or library of each function."""
    return {
        tuple((count.files.get(name, ""), name) for name in path): max(instructions, 0.0)
        for path, instructions in count.paths.items()
    }


VERSION = "millrace.counts/1"


class ProgramPart(JsonPart):
    """The build of the server's program, as far as it says."""

    compilers: tuple[str, ...]
    position_independent: bool | None


class TreatmentPart(JsonPart):
    """The count of a treatment, in instructions per statement."""

    levels: dict[str, Level]
    instructions: Annotated[float | None, From("mean")]
    starts: Annotated[tuple[float, ...], From("values")]
    left_out: int
    spread: float | None
    background: float | None
    transactions: int | None
    refusal: str | None
    program: ProgramPart | None


class FunctionPart(JsonPart):
    """A function that makes a difference; callers are those of its largest one."""

    name: str
    file: str | None
    callers: tuple[str, ...]
    a: float
    b: float
    difference: float
    only: str | None
    places: int


class ComparisonPart(JsonPart):
    """A candidate against the base; the ratio is candidate / base."""

    base: Annotated[str, From("base.label")]
    candidate: Annotated[str, From("candidate.label")]
    verdict: model.Verdict
    ratio: Annotated[float | None, From("ratio.ratio")]
    low: Annotated[float | None, From("ratio.low")]
    high: Annotated[float | None, From("ratio.high")]
    sentence: Annotated[str, From(sentence)]
    functions: list[FunctionPart]
    notes: tuple[str, ...]


class ComparedTreatmentsPart(ComparisonPart):
    """A candidate against the base, with the counts of both."""

    treatments: Annotated[list[TreatmentPart], From(lambda found: (found.base, found.candidate))]
    notes: Annotated[tuple[str, ...], From(comparison_notes)]


class GroupPart(JsonPart):
    """The treatments with the same fixed levels."""

    label: str
    treatments: Annotated[list[TreatmentPart], From("counts")]
    comparisons: list[ComparisonPart]


class CountsDocument(JsonPart):
    """The instruction counts of an experiment."""

    document_schema: str = Field(alias="schema")
    run: Annotated[str, From("run.id")]
    origin: Annotated[Origin, From("run.origin")]
    experiment: str
    scale: Annotated[str, From("run.scale")]
    command: Annotated[str, From("run.millrace_command")]
    valgrind: Annotated[str, From(lambda found: found.run.versions.get("valgrind", ""))]
    starts: int
    groups: list[GroupPart]
    notes: list[str]


def as_json(found: CountedRun) -> dict[str, Any]:
    """Return the counts of a run as one document."""
    lines = [*imported_notes(found.run), *notes(found.groups)]
    document = part(CountsDocument, found, schema=VERSION, notes=lines)
    return document.model_dump(mode="json", by_alias=True)
