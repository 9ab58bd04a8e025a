"""Tables of instruction counts: treatments, and the functions that make a difference."""

from collections.abc import Sequence

from millrace.analysis.counts.model import (
    CountComparison,
    CountGroup,
    FunctionDifference,
    TreatmentCount,
)
from millrace.levels import factor_text
from millrace.report.common.formatting import (
    MISSING,
    grouped_text,
    interval_text,
    known_text,
    ratio_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, plain_table
from millrace.report.counts.sentences import fraction_text


def counts_table(groups: Sequence[CountGroup], factor: str) -> Table:
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
    sections = (Section(group.label, tuple(_rows(group))) for group in groups)
    return Table("instructions per statement", columns, tuple(sections))


def _rows(group: CountGroup) -> Sequence[Row]:
    compared = {each.candidate.label: each for each in group.comparisons}
    return [_row(count, compared.get(count.label)) for count in group.counts]


def _row(count: TreatmentCount, comparison: CountComparison | None) -> Row:
    ratio = None if comparison is None else comparison.ratio
    verdict = "base" if comparison is None else comparison.verdict
    if count.refusal is not None:
        verdict = "refused"
    cells = (
        count.label,
        known_text(count.mean, grouped_text),
        known_text(count.spread, fraction_text),
        str(len(count.values)),
        known_text(count.background, grouped_text),
        MISSING if ratio is None else ratio_text(ratio.ratio),
        MISSING if ratio is None else interval_text(ratio.low, ratio.high),
        verdict,
    )
    return Row(cells, verdict=verdict, is_base=comparison is None)


def functions_table(comparison: CountComparison) -> Table:
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


def _function_row(function: FunctionDifference) -> Row:
    library = function.file is not None and function.file.endswith(".so")
    name = f"{function.name} ({function.file})" if library else function.name
    if function.only is not None:
        name += f", only in {function.only}"
    return Row(
        (
            difference_text(function),
            grouped_text(function.a),
            grouped_text(function.b),
            name,
            _caller(function),
        )
    )


def difference_text(function: FunctionDifference) -> str:
    """Return text such as ``+8,300``, ``−12``: instructions of a statement, B less A."""
    return f"{'+' if function.difference > 0 else '−'}{grouped_text(abs(function.difference))}"


def _caller(function: FunctionDifference) -> str:
    """Return the caller with the largest difference, and the number of others."""
    if not function.callers:
        return MISSING
    more = f", {function.places - 1} more" if function.places > 1 else ""
    return f"{function.callers[-1]}{more}"
