"""The tables of an explanation as plain text cells: account, efficiency, statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millrace.analysis.explain.blocking_stacks import BlockedComparison
from millrace.analysis.explain.breakdown_model import (
    BreakdownDifference,
    DifferenceLine,
    TimeBreakdown,
)
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.statements import StatementComparison, StatementSide
from millrace.report.common.formatting import (
    MISSING,
    figure_text,
    fixed_text,
    ratio_text,
    us_decimals,
    whole_percent_text,
)
from millrace.report.common.tables import Column, Row, Section, Table
from millrace.stats import MeanEstimate, RatioEstimate

Labels = tuple[str, str]  # of A and B

MORE, LESS = "more", "less"
UNTESTED = "?"  # a difference of one block: nobody can tell

_PLACES = 12  # that threads were blocked in longest
_ANYTHING = 1000  # an interval of ratios that is wider says nothing

_KINDS = {"observer": "sessions of millrace"}  # others are called what they are

# The rows of the efficiency table under headings of their own.
_EFFICIENCY: Mapping[str, tuple[str, ...]] = {
    "CPU time": ("cpu_foreground", "cpu_background", "cpu_observers", "cpu_server", "cpu_client"),
    "Context switches": ("voluntary_switches", "involuntary_switches"),
    "Reads and writes": ("reads", "read_kb", "write_kb", "fsyncs", "flushes", "redo_bytes"),
    "Work": ("rows_examined", "pool_misses"),
}


def breakdown_table(found: BreakdownDifference, labels: Labels, noun: str) -> Table:
    """Return every part of the latency, the largest difference first; the sum last."""
    return Table(
        f"Where the time of the {noun} goes",
        breakdown_columns(f"µs per {noun}", labels, found),
        (Section("", breakdown_rows(found, f"latency of the {noun}")),),
    )


def breakdown_columns(title: str, labels: Labels, found: BreakdownDifference) -> tuple[Column, ...]:
    """Return the columns of ``breakdown_rows``."""
    return _with_half_widths(difference_columns(title, labels, found.latency))


def breakdown_rows(
    found: BreakdownDifference, total_title: str, *, least_us: float = 0.0
) -> tuple[Row, ...]:
    """Return the parts of at least ``least_us`` or that differ, the remainder, and the latency."""
    latency_a, latency_b = found.latencies_us
    decimals = us_decimals(max(latency_a, latency_b))
    rows = [
        _difference_row(line, decimals, _finding(line))
        for line in found.lines
        if line.significant or max(abs(line.a_us), abs(line.b_us)) > least_us
    ]
    left = replace(found.unaccounted, title=_left_title(found))
    rows.append(_difference_row(left, decimals, None))
    # Nothing else was asked of the latency, so there is nothing to correct for.
    total = finding(is_sure(found.latency), found.latency.p_value, found.latency)
    cells = (
        total_title,
        fixed_text(latency_a, decimals),
        _half_width(found.a_latency, decimals),
        fixed_text(latency_b, decimals),
        _half_width(found.b_latency, decimals),
        *estimate_cells(found.latency, decimals),
        total or "",
    )
    return (*rows, Row(cells, total, is_total=True))


def blocked_table(found: Sequence[BlockedComparison], labels: Labels, noun: str) -> Table | None:
    """List the calls in which threads were blocked, longest first, and where in the kernel."""
    if not found:
        return None
    shown = found[:_PLACES]
    decimals = us_decimals(max(shown[0].a_us, shown[0].b_us))
    rows = [
        Row(
            (
                row.title,
                _call(row),
                *(fixed_text(us, decimals) for us in (row.a_us, row.b_us)),
                " > ".join(row.stacks[0].functions) if row.stacks else "",
            )
        )
        for row in shown
    ]
    columns = (
        Column("part", numeric=False),
        Column("call", numeric=False),
        *(Column(f"{label}, µs per {noun}") for label in labels),
        Column("most often in the kernel's", numeric=False, drop=1),
    )
    return Table("What it was blocked in", columns, (Section("", tuple(rows)),))


def _call(row: BlockedComparison) -> str:
    if row.call is None:
        return "page fault"
    return f"{row.call} of {row.target}" if row.target else row.call


def background_table(a: TimeBreakdown, b: TimeBreakdown, labels: Labels) -> Table | None:
    """Return CPU time of threads that serve no client, by kind; None where nobody counted it."""
    kinds = list(dict.fromkeys([*a.background, *b.background]))
    if not kinds:
        return None
    sides = [[side.background.get(kind) for kind in kinds] for side in (a, b)]
    decimals = us_decimals(max(each.mean for side in sides for each in side if each))
    rows = [
        Row((_KINDS.get(kind, kind.replace("_", " ")), *(_mean(each, decimals) for each in pair)))
        for kind, *pair in zip(kinds, *sides, strict=True)
    ]
    return Table(
        "CPU time of background threads",
        (Column(f"µs per {a.noun}", numeric=False), *map(Column, labels)),
        (Section("", tuple(rows)),),
    )


def efficiency_table(found: Sequence[EfficiencyRow], labels: Labels, noun: str) -> Table:
    """Return figures of one operation, absolute and relative to A."""
    by_key = {row.key: row for row in found}
    sections = [
        Section(heading, tuple(_efficiency_row(by_key[key]) for key in keys if key in by_key))
        for heading, keys in _EFFICIENCY.items()
    ]
    confidence = next((r.relative.confidence for r in found if r.relative is not None), 0.95)
    return Table(
        f"What one {noun} costs",
        (
            Column(f"per {noun}", numeric=False),
            *map(Column, labels),
            Column("difference", drop=2),
            Column("B / A"),
            Column(f"{confidence * 100:g} % interval", drop=1),
            Column("told by", numeric=False, drop=3),
            Column("B takes", numeric=False),
        ),
        tuple(section for section in sections if section.rows),
    )


def sources_note(found: Sequence[EfficiencyRow]) -> str:
    """Return text such as ``told by threads: server CPU, reads; by status: fsyncs``."""
    by_source: dict[str, list[str]] = {}
    for row in found:
        by_source.setdefault(row.source, []).append(row.title)
    return "; ".join(f"told by {source}: {', '.join(of)}" for source, of in by_source.items())


def statements_table(found: Sequence[StatementComparison], labels: Labels) -> Table | None:
    """Return each statement's latency by the clients' clock and by the server's, if any."""
    if not found:
        return None
    served = any(side and side.server for row in found for side in (row.a, row.b))
    rows = []
    for row in found:
        sides = (row.a, row.b)
        decimals = us_decimals(max(side.latency.mean for side in sides if side))
        cells = [row.name, *(figure_text(s.per_operation) if s else MISSING for s in sides)]
        cells += [_mean(side.latency if side else None, decimals) for side in sides]
        cells += estimate_cells(row.difference, decimals)
        cells += [_served(side, decimals) for side in sides] if served else []
        rows.append(Row(tuple(cells)))
    confidence = next((r.difference.confidence for r in found if r.difference), 0.95)
    columns = (
        Column("statement", numeric=False),
        *(Column(f"times sent, {label}", drop=3) for label in labels),
        *(Column(f"{label}, µs") for label in labels),
        Column("difference"),
        Column(f"{confidence * 100:g} % interval", drop=1),
        *((Column(f"in the server, {label}, µs", drop=2) for label in labels) if served else ()),
    )
    return Table("Latency of each statement", columns, (Section("", tuple(rows)),))


def is_sure(estimate: MeanEstimate) -> bool:
    """Return whether the interval leaves out 0; a single block has none, and is told as it is."""
    if estimate.low is None or estimate.high is None:
        return True
    return not estimate.low <= 0 <= estimate.high


def finding(
    significant: bool, adjusted_p: float | None, difference: MeanEstimate | None
) -> str | None:
    """Return ``more``, ``less`` or ``not sure``, ``?`` of one block; None if untested."""
    if difference is None:
        return None
    if difference.low is None:
        return UNTESTED
    if adjusted_p is None:
        return None
    if not significant:
        return "not sure"
    return MORE if difference.mean > 0 else LESS


def interval_text(estimate: MeanEstimate, decimals: int, *, signed: bool = False) -> str:
    """Return text such as ``+1.2 to +3.4``; missing for a single block."""
    if estimate.low is None or estimate.high is None:
        return MISSING
    low, high = (fixed_text(us, decimals, signed=signed) for us in (estimate.low, estimate.high))
    return f"{low} to {high}"


def difference_columns(title: str, labels: Labels, estimate: MeanEstimate) -> tuple[Column, ...]:
    """Return the columns for A, B, B less A with its interval, and the finding."""
    return (
        Column(title, numeric=False),
        *map(Column, labels),
        Column("difference"),
        Column(f"{estimate.confidence * 100:g} % interval", drop=1),
        Column("B takes", numeric=False),
    )


def estimate_cells(estimate: MeanEstimate | None, decimals: int) -> tuple[str, str]:
    """Return a difference and its interval."""
    if estimate is None:
        return MISSING, MISSING
    mean = fixed_text(estimate.mean, decimals, signed=True)
    return mean, interval_text(estimate, decimals, signed=True)


def _finding(line: DifferenceLine) -> str | None:
    if not (line.a_us or line.b_us):
        return None
    return finding(line.significant, line.adjusted_p, line.difference)


def _left_title(found: BreakdownDifference) -> str:
    """Return text such as ``unaccounted (13 % and −1 %)``: of the latencies of A and B."""
    a, b = found.left_shares
    return f"{found.unaccounted.title} ({whole_percent_text(a)} and {whole_percent_text(b)})"


def _with_half_widths(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with one behind A and one behind B for half of the interval of each."""
    first, a, b, *others = columns
    half_width = Column("±", drop=2)
    return (first, a, half_width, b, half_width, *others)


def _half_width(estimate: MeanEstimate | None, decimals: int) -> str:
    """Return half of an interval; missing for a single block."""
    if estimate is None or estimate.high is None:
        return MISSING
    return fixed_text(estimate.high - estimate.mean, decimals)


def _difference_row(line: DifferenceLine, decimals: int, verdict: str | None) -> Row:
    cells = (
        line.title,
        fixed_text(line.a_us, decimals),
        _half_width(line.a, decimals),
        fixed_text(line.b_us, decimals),
        _half_width(line.b, decimals),
        *estimate_cells(line.difference, decimals),
        verdict or "",
    )
    return Row(cells, verdict)


def _mean(estimate: MeanEstimate | None, decimals: int) -> str:
    return MISSING if estimate is None else fixed_text(estimate.mean, decimals)


def _efficiency_row(row: EfficiencyRow) -> Row:
    relative = row.relative
    verdict = finding(row.significant, row.adjusted_p, row.difference)
    if verdict in (MORE, LESS) and relative is not None:
        verdict = MORE if relative.ratio > 1 else LESS  # which is what was tested
    cells = (
        f"{row.title}, {row.unit}" if row.unit else row.title,
        *(MISSING if side is None else figure_text(side.mean) for side in (row.a, row.b)),
        MISSING if row.difference is None else figure_text(row.difference.mean, signed=True),
        MISSING if relative is None else ratio_text(relative.ratio),
        _ratio_interval(relative),
        row.source,
        verdict or "",
    )
    return Row(cells, verdict)


def _ratio_interval(relative: RatioEstimate | None) -> str:
    """Return text such as ``0.98 to 1.07``; missing where it says nothing."""
    if relative is None or relative.low is None or relative.high is None:
        return MISSING
    if relative.high > _ANYTHING * relative.low:
        return MISSING
    return f"{ratio_text(relative.low)} to {ratio_text(relative.high)}"


def _served(side: StatementSide | None, decimals: int) -> str:
    return _mean(side.server if side else None, decimals)
