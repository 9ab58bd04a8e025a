"""Tables of the servers' own instruments: waits and stages, statements by digest, plans."""

from collections.abc import Sequence

from millrace.analysis.explain.observations import figure_of
from millrace.analysis.explain.plans import PlanSide
from millrace.analysis.explain.waits import Amount, DigestComparison, WaitComparison
from millrace.model.observations import PlanRow
from millrace.report.common.formatting import MISSING, figure_text, known_text
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.explanation.tables import Labels

# What EXPLAIN says first and, of its columns, what explains most; some servers have more.
_PLAN_COLUMNS = (
    "id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows",
    "filtered", "Extra",
)  # fmt: skip


def waits_table(
    found: Sequence[WaitComparison], labels: Labels, *, noun: str, title: str
) -> Table | None:
    """Return waits (or stages) of both, in µs of an operation and calls and seconds of a trial."""
    if not found:
        return None
    rows = [Row((row.name, *_amounts(row.a), *_amounts(row.b))) for row in found]
    columns = [*text_columns("name")]
    for label in labels:
        columns += [
            Column(f"{label}, µs per {noun}"),
            Column(f"{label}, s in a trial", drop=1),
            Column(f"{label}, calls in a trial", drop=2),
        ]
    return plain_table(title, columns, rows)


def digests_table(found: Sequence[DigestComparison], labels: Labels) -> Table | None:
    """Return statements as the servers sum them up."""
    if not found:
        return None
    asked = {
        "µs": "us",
        "rows examined": "rows_examined",
        "rows sent": "rows_sent",
        "temporary tables": "tmp_tables",
        "on disk": "tmp_disk_tables",
    }
    sides = [side for row in found for side in (row.a, row.b)]
    shown = {
        title: name for title, name in asked.items() if any(figure_of(side, name) for side in sides)
    }
    rows = []
    for row in found:
        figures = [
            known_text(figure_of(side, name), figure_text)
            for name in shown.values()
            for side in (row.a, row.b)
        ]
        rows.append(Row((row.text, *figures)))
    columns = [*text_columns("statement, without its values")]
    columns += [
        Column(f"{title}, {label}", drop=number)
        for number, title in enumerate(shown)
        for label in labels
    ]
    return plain_table("Statements as the servers sum them up", columns, rows)


def plan_table(side: PlanSide, label: str) -> Table:
    """Return a plan as EXPLAIN shows it, the columns that say anything."""
    names = {name.lower(): name for row in side.rows for name in row}
    known = [names.pop(name.lower()) for name in _PLAN_COLUMNS if name.lower() in names]
    columns = [
        name
        for name in (*known, *names.values())
        if any(row.get(name) not in (None, "") for row in side.rows)
    ]
    rows = (Row(tuple(known_text(row.get(name), str) for name in columns)) for row in side.rows)
    return plain_table(f"Plan of {label}", text_columns(*columns), rows)


def access_text(side: PlanSide) -> str:
    """Describe how a plan gets at its rows: ``ref of sbtest1 by k_1, 3 rows; then ...``."""
    if side.error is not None:
        return f"no plan: {side.error}"
    steps = [_step_text(row) for row in side.rows]
    return "; then ".join(steps) or "no plan"


def _step_text(row: PlanRow) -> str:
    said = {name.lower(): value for name, value in row.items() if value not in (None, "")}
    how = str(said.get("type") or said.get("select_type") or "a step")
    text = f"{how} of {said['table']}" if "table" in said else how
    if "key" in said:
        text += f" by {said['key']}"
    if "rows" in said:
        text += f", {said['rows']} rows"
    return f"{text}, {said['extra']}" if "extra" in said else text


def _amounts(amount: Amount | None) -> tuple[str, str, str]:
    if amount is None:
        return MISSING, MISSING, MISSING
    return figure_text(amount.us), figure_text(amount.seconds), figure_text(amount.count)
