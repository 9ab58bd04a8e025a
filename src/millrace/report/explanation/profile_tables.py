"""The tables of CPU profiles: groups of functions, functions, and flat profiles."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.analysis.explain.profiles import FlatProfile, FunctionDifference, ProfileComparison
from millrace.report.common.formatting import counted, figure_text, fixed_text, us_decimals
from millrace.report.common.tables import Column, Row, Section, Table
from millrace.report.common.wording import short_symbol
from millrace.report.explanation.tables import Labels, difference_columns, estimate_cells, finding

FUNCTIONS = 25  # in the table; more of them hardly differ
FLAT_LINES = 40
PATHS = 20
FEW_SAMPLES = 1_000
_INNERMOST = 6  # functions of a call path that are shown


def groups_table(found: ProfileComparison, labels: Labels, noun: str) -> Table:
    """Return CPU time by what functions are for, the largest difference first; the sum last."""
    decimals = us_decimals(max(found.a_cpu_us, found.b_cpu_us))
    rows = []
    for group in found.groups:
        verdict = finding(group.significant, group.adjusted_p, group.difference)
        cells = (
            group.title,
            fixed_text(group.a_us, decimals),
            fixed_text(group.b_us, decimals),
            *estimate_cells(group.difference, decimals),
            verdict or "",
        )
        rows.append(Row(cells, verdict))
    total = (
        "all",
        fixed_text(found.a_cpu_us, decimals),
        fixed_text(found.b_cpu_us, decimals),
        *estimate_cells(found.cpu, decimals),
        "",
    )
    return Table(
        "CPU time by what it is for",
        difference_columns(
            f"server CPU{' in user code' if found.user_only else ''}, µs per {noun}",
            labels,
            found.cpu,
        ),
        (Section("", (*rows, Row(total, is_total=True))),),
    )


def functions_table(found: ProfileComparison, labels: Labels, noun: str) -> Table:
    """Return the functions whose own time differs most."""
    shown = [each for each in found.functions if each.a_us or each.b_us][:FUNCTIONS]
    decimals = us_decimals(max((max(f.a_us, f.b_us) for f in shown), default=0.0))
    columns = difference_columns(f"own CPU time, µs per {noun}", labels, found.cpu)
    inclusive = Column("with callees, difference", drop=2)
    return Table(
        "Functions that differ most",
        (columns[0], Column("library", numeric=False, drop=3), *columns[1:-1], inclusive,
         columns[-1]),
        (Section("", tuple(_function_row(each, decimals) for each in shown)),),
    )  # fmt: skip


def paths_table(found: ProfileComparison, labels: Labels, noun: str) -> Table | None:
    """Return the call paths that differ most; None without any."""
    shown = found.paths[:PATHS]
    if not shown:
        return None
    decimals = us_decimals(max(max(path.a_us, path.b_us) for path in shown))
    rows = []
    for each in shown:
        verdict = finding(each.significant, each.adjusted_p, each.difference)
        cells = (
            _path_text(each.path),
            fixed_text(each.a_us, decimals),
            fixed_text(each.b_us, decimals),
            *estimate_cells(each.difference, decimals),
            verdict or "",
        )
        rows.append(Row(cells, verdict))
    return Table(
        "Call paths that differ most",
        difference_columns(f"last function's own CPU time, µs per {noun}", labels, found.cpu),
        (Section("", tuple(rows)),),
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
    rows = [
        Row(
            (
                f"{line.samples:,}",
                f"{line.percent:.2f}",
                figure_text(line.us),
                line.library,
                short_symbol(line.symbol),
            )
        )
        for line in flat.lines[:FLAT_LINES]
    ]
    return Table(
        f"Flat profile of {label}",
        (
            Column("samples"),
            Column("%"),
            Column("µs"),
            Column("library", numeric=False),
            Column("function", numeric=False),
        ),
        (Section("", tuple(rows)),),
    )


def flat_note(flat: FlatProfile) -> str:
    """Describe how a profile was taken, and what its table leaves out."""
    runs = f" of {flat.runs} runs" if flat.runs > flat.trials else ""
    text = (
        f"{flat.samples:,} samples of {flat.event} in {counted(flat.trials, 'trial')}{runs}, "
        f"{figure_text(flat.cpu_us)} µs of CPU time"
    )
    if flat.user_only:
        text += " in user code only, the kernel could not be sampled"
    if flat.lost:
        text += f"; {flat.lost:,} samples lost"
    rest: Sequence[object] = flat.lines[FLAT_LINES:]
    if rest:
        percent = sum(line.percent for line in flat.lines[FLAT_LINES:])
        text += f"; {len(rest):,} further functions have {percent:.1f} % of them"
    return text


def few_samples_note(flats: Sequence[tuple[str, FlatProfile | None]]) -> str | None:
    """Warn of sides with too few samples to tell small functions apart; None where none has."""
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
