"""Show what servers did while their disk was full, and what was left of the rows."""

import math
from collections.abc import Callable, Iterator
from itertools import chain

from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import factor_text, level_value
from millrace.model.instance_facts import FullDiskFact
from millrace.quantities import counted
from millrace.report.common.formatting import MISSING, bytes_text, count_text, latency_text
from millrace.report.common.tables import Row, Section, Table, text_columns

_AT_ONCE_S = 10.0


def full_disk_tables(analysis: RunAnalysis) -> list[Table]:
    """Return the overview, a row a server and a column a case, and the table with its details.

    Return none where no trial filled its disk.
    """
    if not any(treatment.full_disk for treatment in analysis.treatments):
        return []
    return [_overview(analysis), _details(analysis)]


def full_disk_answer(analysis: RunAnalysis) -> str | None:
    """Say which servers lost rows, crashed, or needed a restart; None where no disk was filled."""
    if not any(treatment.full_disk for treatment in analysis.treatments):
        return None

    def where(holds: Callable[[FullDiskFact], bool]) -> str:
        return ", ".join(t.label for t in analysis.treatments if any(map(holds, t.full_disk)))

    lost = where(lambda fact: bool(fact.lost_rows) or fact.unreadable is not None)
    refused = where(lambda fact: bool(fact.refused_rows))
    crashed = where(lambda fact: fact.ended is not None)
    hung = where(lambda fact: fact.ended is None and fact.recovery_s is None)
    texts = (
        f"Committed rows were lost or cannot be read: {lost}."
        if lost
        else "No committed row was lost.",
        f"Refused changes were made: {refused}." if refused else "",
        f"Crashed: {crashed}." if crashed else "No server crashed.",
        f"Did not write again without a restart: {hung}." if hung else "",
    )
    return " ".join(filter(None, texts))


def _overview(analysis: RunAnalysis) -> Table:
    factor = factor_text(analysis.factor)
    cells: dict[str, list[str]] = {}
    bases = set[str]()
    for number, group in enumerate(analysis.groups):
        for treatment in group.treatments:
            level = level_value(treatment.level)
            row = cells.setdefault(level, [MISSING] * len(analysis.groups))
            row[number] = " / ".join(dict.fromkeys(map(outcome, treatment.full_disk))) or MISSING
            bases |= {level} if treatment.is_base else set()
    columns = text_columns(factor, *(group.label or "outcome" for group in analysis.groups))
    rows = (Row((level, *row), is_base=level in bases) for level, row in cells.items())
    return Table("When the disk was full", columns, (Section("", tuple(rows)),))


def outcome(fact: FullDiskFact) -> str:
    """Return a trial's outcome in a few words: the trouble, the way out of it, and the rows."""
    crashed = fact.ended is not None
    trouble = {
        "error": "error, then it crashed" if crashed else "error",
        "silence": "no answer, then it crashed" if crashed else "no answer",
        "end": "it crashed",
        None: "writes on" if fact.reads else "did not fill the disk",
    }[fact.trouble]
    if fact.restart_failed is not None:
        way_out = "does not start again"
    elif fact.trouble is None:
        way_out = ""
    else:
        way_out = _way_out(fact.recovery_s)
    return "; ".join(filter(None, (trouble, way_out, _rows_in_short(fact))))


def _way_out(recovery_s: float | None) -> str:
    if recovery_s is None:
        return "needs a restart"
    if recovery_s <= _AT_ONCE_S:
        return "writes again by itself"
    minutes = math.ceil(recovery_s / 60)
    return f"writes again by itself within {counted(minutes, 'minute')}"


def _rows_in_short(fact: FullDiskFact) -> str:
    if fact.lost_rows is None:
        return "rows cannot be read" if fact.restart_failed is None else ""
    if fact.lost_rows:
        return f"{counted(int(fact.lost_rows), 'row')} lost"
    if fact.refused_rows:
        return f"{counted(int(fact.refused_rows), 'refused row')} written"
    return "no row lost"


def _details(analysis: RunAnalysis) -> Table:
    columns = text_columns(
        factor_text(analysis.factor), "first trouble", "while full", "when space returned",
        "after a restart", "rows",
    )  # fmt: skip
    sections = (
        Section(group.label, tuple(chain.from_iterable(map(_detail_rows, group.treatments))))
        for group in analysis.groups
    )
    return Table("In detail", columns, tuple(each for each in sections if each.rows))


def _detail_rows(treatment: TreatmentAnalysis) -> Iterator[Row]:
    """Yield a row for each trial: their times differ."""
    for fact in treatment.full_disk:
        texts = (each(fact) for each in (_trouble, _while_full, _return, _restart, _rows))
        yield Row((level_value(treatment.level), *texts), is_base=treatment.is_base)


def _trouble(fact: FullDiskFact) -> str:
    after = f"after {latency_text(fact.trouble_s)}"
    match fact.trouble:
        case "error":
            return f"error {after}: {fact.error}"
        case "silence":
            return f"no answer, {after} of writing"
        case "end":
            return f"it crashed {after}"
    left = bytes_text(fact.free_bytes)
    return f"none in {latency_text(fact.trouble_s)} of writing, with {left} left"


def _while_full(fact: FullDiskFact) -> str:
    if not fact.reads:
        return "it was not full"
    crash = "" if fact.ended is None else f"it {fact.ended}; "
    if not fact.reads_answered:
        reads = "no read was answered"
    elif fact.reads_answered == fact.reads:
        reads = "reads were answered"
    else:
        reads = f"{count_text(fact.reads_answered)} of {count_text(fact.reads)} reads were answered"
    commits = int(fact.commits_while_full)
    committed = f"{counted(commits, 'transaction')} committed" if commits else "no commit"
    return f"{crash}{reads}; {committed}"


def _return(fact: FullDiskFact) -> str:
    if fact.recovery_s is not None:
        return f"wrote again after {latency_text(fact.recovery_s)}"
    if fact.ended is not None:
        return "it had crashed"
    return f"no commit within {latency_text(fact.recovery_limit_s)}"


def _restart(fact: FullDiskFact) -> str:
    stopped = "" if fact.stop_failed is None else "had to be killed; "
    if fact.restart_failed is not None:
        return f"{stopped}does not start: {fact.restart_failed}"
    return f"{stopped}started in {latency_text(fact.restart_s or 0.0)}"


def _rows(fact: FullDiskFact) -> str:
    if fact.restart_failed is not None:
        return "cannot be read"
    if fact.lost_rows is None:
        return f"cannot be read: {fact.unreadable}"
    lost = count_text(fact.lost_rows) if fact.lost_rows else "none"
    texts = [f"{lost} of {count_text(fact.committed_rows)} committed rows lost"]
    if fact.refused_rows:
        texts.append(f"{count_text(fact.refused_rows)} written though it had refused them")
    if fact.unanswered_rows:
        texts.append(f"{count_text(fact.unanswered_rows)} written that it had not answered")
    return "; ".join(texts)
