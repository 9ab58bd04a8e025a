"""The tables of an explanation as plain text cells: times, costs, waits, plans, and profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from millrace.analysis.explain.blocking_stacks import BlockedComparison
from millrace.analysis.explain.call_tree import PathDifference
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.observations import figure_of
from millrace.analysis.explain.plans import PlanSide
from millrace.analysis.explain.profiles import (
    FlatProfile,
    FunctionDifference,
    GroupDifference,
    ProfileComparison,
)
from millrace.analysis.explain.statement_breakdown import StatementBreakdownDifference
from millrace.analysis.explain.statements import StatementComparison
from millrace.analysis.explain.time_breakdown import (
    BreakdownDifference,
    DifferenceLine,
    TimeBreakdown,
)
from millrace.analysis.explain.waits import Amount, DigestComparison, WaitComparison
from millrace.model.observations import PlanRow
from millrace.quantities import counted
from millrace.report.common.formatting import (
    MISSING,
    figure_text,
    fixed_text,
    known_text,
    ratio_text,
    us_decimals,
    whole_percent_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, plain_table, text_columns
from millrace.report.common.wording import short_symbol
from millrace.stats.mean import MeanEstimate
from millrace.stats.ratio import RatioEstimate

Labels = tuple[str, str]  # of A and B

MORE, LESS = "more", "less"
UNTESTED = "?"  # a difference of one block: nobody can tell

_PLACES = 12  # that threads were blocked in longest
_ANYTHING = 1000  # an interval of ratios that is wider says nothing

SMALL = 0.01  # of a statement's latency: parts below it that do not differ are left out
NOTE = (
    "of one execution; being on a CPU and being ready for one are one part where the scheduler’s "
    f"events tell too little; parts below {SMALL * 100:g} % of the statement are left out"
)

_KINDS = {"observer": "sessions of millrace"}  # others are called what they are

# The rows of the efficiency table under headings of their own.
_EFFICIENCY: Mapping[str, tuple[str, ...]] = {
    "CPU time": ("cpu_foreground", "cpu_background", "cpu_observers", "cpu_server", "cpu_client"),
    "Context switches": ("voluntary_switches", "involuntary_switches"),
    "Reads and writes": ("reads", "read_kb", "write_kb", "fsyncs", "flushes", "redo_bytes"),
    "Work": ("rows_examined", "pool_requests", "pool_misses"),
}
FUNCTIONS = 25  # in the table; more of them hardly differ
FLAT_LINES = 40
PATHS = 20
FEW_SAMPLES = 1_000
_INNERMOST = 6  # functions of a call path that are shown


def breakdown_table(found: BreakdownDifference, labels: Labels, noun: str) -> Table:
    """Return every part of the latency, the largest difference first; the sum last."""
    columns = breakdown_columns(f"µs per {noun}", labels, found)
    rows = breakdown_rows(found, f"latency of the {noun}")
    return plain_table(f"Where the time of the {noun} goes", columns, rows)


def breakdown_columns(title: str, labels: Labels, found: BreakdownDifference) -> tuple[Column, ...]:
    """Return the columns of ``breakdown_rows``: A and B each with half of its interval."""
    first, a, b, *others = difference_columns(title, labels, found.latency)
    half_width = Column("±", drop=2)
    return (first, a, half_width, b, half_width, *others)


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
    shares = " and ".join(map(whole_percent_text, found.left_shares))
    left = replace(found.unaccounted, title=f"{found.unaccounted.title} ({shares})")
    rows.append(_difference_row(left, decimals, None))
    # Nothing else was asked of the latency, so there is nothing to correct for.
    total = finding(is_sure(found.latency), found.latency.p_value, found.latency)
    sides = ((latency_a, found.a_latency), (latency_b, found.b_latency))
    row = _breakdown_row(total_title, sides, found.latency, decimals, total)
    return (*rows, replace(row, is_total=True))


def blocked_table(found: Sequence[BlockedComparison], labels: Labels, noun: str) -> Table | None:
    """List the calls in which threads were blocked, longest first, and where in the kernel."""
    if not found:
        return None
    shown = found[:_PLACES]
    decimals = us_decimals(max(shown[0].a_us, shown[0].b_us))
    rows = []
    for row in shown:
        of = f" of {row.target}" if row.target else ""
        call = "page fault" if row.call is None else f"{row.call}{of}"
        sides = (fixed_text(us, decimals) for us in (row.a_us, row.b_us))
        stack = " > ".join(row.stacks[0].functions) if row.stacks else ""
        rows.append(Row((row.title, call, *sides, stack)))
    columns = (
        *text_columns("part", "call"),
        *(Column(f"{label}, µs per {noun}") for label in labels),
        Column("most often in the kernel's", numeric=False, drop=1),
    )
    return plain_table("What it was blocked in", columns, rows)


def background_table(
    a: TimeBreakdown | None, b: TimeBreakdown | None, labels: Labels
) -> Table | None:
    """Return CPU time of threads that serve no client, by kind; None where nobody counted it."""
    if a is None or b is None:
        return None
    kinds = list(dict.fromkeys([*a.background, *b.background]))
    if not kinds:
        return None
    sides = [[side.background.get(kind) for kind in kinds] for side in (a, b)]
    decimals = us_decimals(max(each.mean for side in sides for each in side if each))
    rows = [
        Row((_KINDS.get(kind, kind.replace("_", " ")), *(_mean(each, decimals) for each in pair)))
        for kind, *pair in zip(kinds, *sides, strict=True)
    ]
    columns = (*text_columns(f"µs per {a.noun}"), *map(Column, labels))
    return plain_table("CPU time of background threads", columns, rows)


def efficiency_table(found: Sequence[EfficiencyRow], labels: Labels, noun: str) -> Table | None:
    """Return figures of one operation, absolute and relative to A; None without any."""
    if not found:
        return None
    by_key = {row.key: row for row in found}
    sections = [
        Section(heading, tuple(_efficiency_row(by_key[key]) for key in keys if key in by_key))
        for heading, keys in _EFFICIENCY.items()
    ]
    confidence = next((r.relative.confidence for r in found if r.relative is not None), 0.95)
    return Table(
        f"What one {noun} costs",
        (
            *text_columns(f"per {noun}"), *map(Column, labels), Column("difference", drop=2),
            Column("B / A"), Column(f"{confidence * 100:g} % interval", drop=1),
            Column("measured by", numeric=False, drop=3), *text_columns("B takes"),
        ),
        tuple(section for section in sections if section.rows),
    )  # fmt: skip


def sources_note(found: Sequence[EfficiencyRow]) -> str:
    """Return text such as ``measured by threads: server CPU, reads; by status: fsyncs``."""
    by_source: dict[str, list[str]] = {}
    for row in found:
        by_source.setdefault(row.source, []).append(row.title)
    return "; ".join(f"measured by {source}: {', '.join(of)}" for source, of in by_source.items())


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
        if served:
            cells += [_mean(side.server if side else None, decimals) for side in sides]
        rows.append(Row(tuple(cells)))
    confidence = next((r.difference.confidence for r in found if r.difference), 0.95)
    columns = (
        *text_columns("statement"),
        *(Column(f"times sent, {label}", drop=3) for label in labels),
        *(Column(f"{label}, µs") for label in labels),
        Column("difference"),
        Column(f"{confidence * 100:g} % interval", drop=1),
        *((Column(f"in the server, {label}, µs", drop=2) for label in labels) if served else ()),
    )
    return plain_table("Latency of each statement", columns, rows)


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
    title, sides = f"all {' and '.join(times)} in a {noun}", ((each.a_us, None), (each.b_us, None))
    return (_breakdown_row(title, sides, each.of_operation, decimals, verdict),)


def _times(each: StatementBreakdownDifference) -> list[str]:
    """Say how often an operation sends the statement in A and in B; once where that is the same."""
    return list(dict.fromkeys(map(figure_text, (each.a_times, each.b_times))))


def is_sure(estimate: MeanEstimate) -> bool:
    """Return whether the interval leaves out 0, or is missing (a single block)."""
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
    interval = Column(f"{estimate.confidence * 100:g} % interval", drop=1)
    sides = (*map(Column, labels), Column("difference"))
    return (*text_columns(title), *sides, interval, *text_columns("B takes"))


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


def _half_width(estimate: MeanEstimate | None, decimals: int) -> str:
    if estimate is None or estimate.high is None:
        return MISSING
    return fixed_text(estimate.high - estimate.mean, decimals)


def _difference_row(line: DifferenceLine, decimals: int, verdict: str | None) -> Row:
    sides = ((line.a_us, line.a), (line.b_us, line.b))
    return _breakdown_row(line.title, sides, line.difference, decimals, verdict)


def _breakdown_row(
    title: str,
    sides: Sequence[tuple[float, MeanEstimate | None]],
    difference: MeanEstimate,
    decimals: int,
    verdict: str | None,
) -> Row:
    """Return a row of ``breakdown_columns``; each side is a time in µs and its estimate."""
    of_sides = ((fixed_text(us, decimals), _half_width(mean, decimals)) for us, mean in sides)
    cells = (title, *chain(*of_sides), *estimate_cells(difference, decimals), verdict or "")
    return Row(cells, verdict)


def _mean(estimate: MeanEstimate | None, decimals: int) -> str:
    return known_text(estimate, lambda each: fixed_text(each.mean, decimals))


def _efficiency_row(row: EfficiencyRow) -> Row:
    relative = row.relative
    verdict = finding(row.significant, row.adjusted_p, row.difference)
    if verdict in (MORE, LESS) and relative is not None:
        verdict = MORE if relative.ratio > 1 else LESS  # which is what was tested
    cells = (
        f"{row.title}, {row.unit}" if row.unit else row.title,
        *(known_text(side, lambda each: figure_text(each.mean)) for side in (row.a, row.b)),
        known_text(row.difference, lambda each: figure_text(each.mean, signed=True)),
        known_text(relative, lambda each: ratio_text(each.ratio)),
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


def groups_table(found: ProfileComparison | None, labels: Labels, noun: str) -> Table | None:
    """Return CPU time by what functions are for, the largest difference first; the sum last."""
    if found is None:
        return None
    decimals = us_decimals(max(found.a_cpu_us, found.b_cpu_us))
    rows = [_cpu_row(group.title, group, decimals) for group in found.groups]
    sums = (fixed_text(found.a_cpu_us, decimals), fixed_text(found.b_cpu_us, decimals))
    total = Row(("all", *sums, *estimate_cells(found.cpu, decimals), ""), is_total=True)
    cpu = f"server CPU{' in user code' if found.user_only else ''}, µs per {noun}"
    columns = difference_columns(cpu, labels, found.cpu)
    return plain_table("CPU time by what it is for", columns, (*rows, total))


def _cpu_row(title: str, each: GroupDifference | PathDifference, decimals: int) -> Row:
    verdict = finding(each.significant, each.adjusted_p, each.difference)
    sides = (fixed_text(each.a_us, decimals), fixed_text(each.b_us, decimals))
    return Row((title, *sides, *estimate_cells(each.difference, decimals), verdict or ""), verdict)


def functions_table(found: ProfileComparison | None, labels: Labels, noun: str) -> Table | None:
    """Return the functions whose own time differs most."""
    if found is None:
        return None
    shown = [each for each in found.functions if each.a_us or each.b_us][:FUNCTIONS]
    decimals = us_decimals(max((max(f.a_us, f.b_us) for f in shown), default=0.0))
    columns = difference_columns(f"own CPU time, µs per {noun}", labels, found.cpu)
    inclusive = Column("with callees, difference", drop=2)
    library = Column("library", numeric=False, drop=3)
    return plain_table(
        "Functions that differ most",
        (columns[0], library, *columns[1:-1], inclusive, columns[-1]),
        (_function_row(each, decimals) for each in shown),
    )


def paths_table(found: ProfileComparison | None, labels: Labels, noun: str) -> Table | None:
    """Return the call paths that differ most; None without any."""
    shown = () if found is None else found.paths[:PATHS]
    if found is None or not shown:
        return None
    decimals = us_decimals(max(max(path.a_us, path.b_us) for path in shown))
    return plain_table(
        "Call paths that differ most",
        difference_columns(f"last function's own CPU time, µs per {noun}", labels, found.cpu),
        (_cpu_row(_path_text(each.path), each, decimals) for each in shown),
    )


def _path_text(path: Sequence[str]) -> str:
    """Return the kind of thread and the innermost functions, which tell paths apart."""
    kind, *frames = path
    names = [short_symbol(frame.partition("`")[2] or frame) for frame in frames]
    if len(names) > _INNERMOST:
        names = ["…", *names[-_INNERMOST:]]
    return " > ".join((kind.replace("_", " "), *names))


def flat_table(flat: FlatProfile, label: str) -> Table:
    """Return a flat profile, as profilers print it, with the cost of each function."""
    rows = []
    for line in flat.lines[:FLAT_LINES]:
        figures = (f"{line.samples:,}", f"{line.percent:.2f}", figure_text(line.us))
        rows.append(Row((*figures, line.library, short_symbol(line.symbol))))
    columns = (*map(Column, ("samples", "%", "µs")), *text_columns("library", "function"))
    return plain_table(f"Flat profile of {label}", columns, rows)


def flat_note(flat: FlatProfile) -> str:
    """Describe how a profile was taken, and what its table leaves out."""
    runs = f" of {flat.runs} runs" if flat.runs > flat.trials else ""
    text = (
        f"{counted(flat.samples, 'sample')} of {flat.event} in "
        f"{counted(flat.trials, 'trial')}{runs}, {figure_text(flat.cpu_us)} µs of CPU time"
    )
    if flat.user_only:
        text += " in user code only, the kernel could not be sampled"
    if flat.lost:
        text += f"; {counted(flat.lost, 'sample')} lost"
    if rest := flat.lines[FLAT_LINES:]:
        percent = sum(line.percent for line in rest)
        text += f"; {len(rest):,} further functions have {percent:.1f} % of them"
    return text


def profile_notes(
    found: ProfileComparison | None, flats: Sequence[tuple[str, FlatProfile | None]]
) -> list[str]:
    """List what qualifies the tables of a profile."""
    listed = [few] if (few := few_samples_note(flats)) else []
    if found is not None and found.by == "samples":
        listed.append(
            "one profiled block is one start of each server: the intervals are those of its number "
            "of samples alone, and another start may differ by more"
        )
    return listed


def few_samples_note(flats: Sequence[tuple[str, FlatProfile | None]]) -> str | None:
    """Return a warning that names sides with too few samples to compare small functions, or None.

    None means that every side has enough.
    """
    few = [
        f"{flat.samples:,} in {label}"
        for label, flat in flats
        if flat is not None and flat.samples < FEW_SAMPLES
    ]
    return f"few samples: {', '.join(few)}; more --profile-blocks give more" if few else None


def _function_row(each: FunctionDifference, decimals: int) -> Row:
    verdict = None
    if each.shifted is None:
        verdict = finding(each.significant, each.adjusted_p, each.difference)
    name = short_symbol(each.name)
    cells = (
        f"{name} ({each.shifted})" if each.shifted else name,
        each.module,
        fixed_text(each.a_us, decimals),
        fixed_text(each.b_us, decimals),
        *estimate_cells(each.difference, decimals),
        fixed_text(each.inclusive.mean, decimals, signed=True),
        verdict or ("moved" if each.shifted else ""),
    )
    return Row(cells, verdict)
