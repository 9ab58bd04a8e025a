"""The tables of CPU profiles: groups of functions, functions, and flat profiles."""

from collections.abc import Sequence

from millrace.analysis.explain.call_tree import PathDifference
from millrace.analysis.explain.profiles import (
    FlatProfile,
    FunctionDifference,
    GroupDifference,
    ProfileComparison,
)
from millrace.quantities import counted
from millrace.report.common.formatting import figure_text, fixed_text, us_decimals
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.common.wording import short_symbol
from millrace.report.explanation.tables import Labels, difference_columns, estimate_cells, finding

FUNCTIONS = 25  # in the table; more of them hardly differ
FLAT_LINES = 40
PATHS = 20
FEW_SAMPLES = 1_000
_INNERMOST = 6  # functions of a call path that are shown


def groups_table(found: ProfileComparison | None, labels: Labels, noun: str) -> Table | None:
    """Return CPU time by what functions are for, the largest difference first; the sum last."""
    if found is None:
        return None
    decimals = us_decimals(max(found.a_cpu_us, found.b_cpu_us))
    rows = [_difference_row(group.title, group, decimals) for group in found.groups]
    sums = (fixed_text(found.a_cpu_us, decimals), fixed_text(found.b_cpu_us, decimals))
    total = Row(("all", *sums, *estimate_cells(found.cpu, decimals), ""), is_total=True)
    cpu = f"server CPU{' in user code' if found.user_only else ''}, µs per {noun}"
    columns = difference_columns(cpu, labels, found.cpu)
    return plain_table("CPU time by what it is for", columns, (*rows, total))


def _difference_row(title: str, each: GroupDifference | PathDifference, decimals: int) -> Row:
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
        (_difference_row(_path_text(each.path), each, decimals) for each in shown),
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


def notes(
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
