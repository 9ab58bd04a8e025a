"""Where the time of each statement goes, as a table and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.analysis.statement_account import StatementDifferences
from millrace.report.explain_tables import (
    Labels,
    account_columns,
    account_rows,
    is_sure,
    latencies_us,
)
from millrace.report.formatting import figure_text, fixed_text, us_decimals
from millrace.report.tables import Section, Table

SMALL = 0.01  # of a statement's latency: parts below it that do not differ are left out
NOTE = (
    "of one execution; samples do not tell a thread on a CPU from one that is ready; parts below "
    f"{SMALL * 100:g} % of the statement are left out"
)


def statement_accounts_table(
    found: Sequence[StatementDifferences], labels: Labels, noun: str
) -> Table | None:
    """A section for each statement, that first which makes most of the difference."""
    if not found:
        return None
    sections = tuple(
        Section(
            _heading(each, noun),
            account_rows(each.account, "latency", least_us=SMALL * max(latencies_us(each.account))),
        )
        for each in found
    )
    columns = account_columns("µs of an execution", labels, found[0].account)
    return Table("Where the time of each statement goes", columns, sections)


def statement_sentence(found: Sequence[StatementDifferences], noun: str) -> str:
    """Which statement makes most of the difference, and of what; empty where none does for sure."""
    if not found or not found[0].account.lines or not is_sure(found[0].of_operation):
        return ""
    most = found[0]
    line = most.account.lines[0]
    decimals = us_decimals(max(latencies_us(most.account)))
    whole = fixed_text(most.of_operation.mean, decimals, signed=True)
    part = fixed_text(line.difference.mean, decimals, signed=True)
    doubt = "" if line.significant or line.adjusted_p is None else " (not sure)"
    return (
        f"Of its statements, {most.name} differs most: {whole} µs of a {noun}; the largest part of "
        f"that is {line.title}, {part} µs an execution{doubt}."
    )


def _heading(each: StatementDifferences, noun: str) -> str:
    """``update_index (2 a transaction, +85.3 µs of its difference)``."""
    times = list(dict.fromkeys(map(figure_text, (each.a_times, each.b_times))))
    decimals = us_decimals(max(latencies_us(each.account)))
    whole = fixed_text(each.of_operation.mean, decimals, signed=True)
    return f"{each.name} ({' and '.join(times)} a {noun}, {whole} µs of its difference)"
