"""The time of each statement, as a table and in a sentence."""

from collections.abc import Sequence

from millrace.analysis.explain.breakdown_model import DifferenceLine
from millrace.analysis.explain.statement_breakdown import StatementBreakdownDifference
from millrace.report.common.formatting import MISSING, figure_text, fixed_text, us_decimals
from millrace.report.common.tables import Row, Section, Table
from millrace.report.explanation.tables import (
    Labels,
    breakdown_columns,
    breakdown_rows,
    estimate_cells,
    finding,
    is_sure,
)

SMALL = 0.01  # of a statement's latency: parts below it that do not differ are left out
NOTE = (
    "of one execution; being on a CPU and being ready for one are one part where the scheduler’s "
    f"events tell too little; parts below {SMALL * 100:g} % of the statement are left out"
)


def statement_breakdown_table(
    found: Sequence[StatementBreakdownDifference], labels: Labels, noun: str
) -> Table | None:
    """Return a section for each statement, that first which makes most of the difference."""
    if not found:
        return None
    sections = []
    for each in found:
        least_us = SMALL * max(each.breakdown.latencies_us)
        rows = breakdown_rows(each.breakdown, "latency", least_us=least_us)
        sections.append(Section(each.name, (*rows, *_all_rows(each, noun))))
    columns = breakdown_columns("µs of an execution", labels, found[0].breakdown)
    return Table("Where the time of each statement goes", columns, tuple(sections))


def statement_sentence(found: Sequence[StatementBreakdownDifference], noun: str) -> str:
    """Name the statement that makes most of the difference, if one does for sure."""
    if not found or not found[0].breakdown.lines or not is_sure(found[0].of_operation):
        return ""
    most = found[0]
    decimals = us_decimals(max(most.a_us, most.b_us))
    whole = fixed_text(most.of_operation.mean, decimals, signed=True)
    times = _times(most)
    sent = f", sent {' and '.join(times)} times," if len(times) > 1 else ""
    return (
        f"Of its statements, {most.name}{sent} differs most: {whole} µs of a {noun}"
        f"{_largest_part(most, decimals)}."
    )


def _largest_part(most: StatementBreakdownDifference, decimals: int) -> str:
    """Return text such as ``; the largest part of that is waiting for a lock, +270 µs``, if any."""
    direction = 1 if most.of_operation.mean > 0 else -1

    def along(line: DifferenceLine) -> float:
        return direction * (most.b_times * line.b_us - most.a_times * line.a_us)

    line = max(most.breakdown.lines, key=along)
    if along(line) <= 0:
        return ""
    part = fixed_text(direction * along(line), decimals, signed=True)
    # What was tested is one execution.
    is_sure_of_it = line.significant and direction * line.difference.mean > 0
    doubt = "" if is_sure_of_it else " (not sure)"
    return f"; the largest part of that is {line.title}, {part} µs{doubt}"


def _all_rows(each: StatementBreakdownDifference, noun: str) -> tuple[Row, ...]:
    """Return a row for all executions in an operation, if there are several."""
    times = _times(each)
    if times == ["1"]:
        return ()
    decimals = us_decimals(max(each.a_us, each.b_us))
    verdict = finding(is_sure(each.of_operation), each.of_operation.p_value, each.of_operation)
    cells = (
        f"all {' and '.join(times)} in a {noun}",
        fixed_text(each.a_us, decimals),
        MISSING,
        fixed_text(each.b_us, decimals),
        MISSING,
        *estimate_cells(each.of_operation, decimals),
        verdict or "",
    )
    return (Row(cells, verdict),)


def _times(each: StatementBreakdownDifference) -> list[str]:
    """Say how often an operation sends the statement in A and in B; once where that is the same."""
    return list(dict.fromkeys(map(figure_text, (each.a_times, each.b_times))))
