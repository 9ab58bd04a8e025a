"""Histories as tables and sentences: series with their course, changes by label, breaks."""

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from millrace.analysis.history.overview import ChangeGroup, ChangeView, SeriesView
from millrace.analysis.history.segments import EnvironmentChange
from millrace.quantities import counted
from millrace.report.common.formatting import (
    GLYPHS,
    MISSING,
    change_text,
    difference_text,
    interval_text,
    ratio_text,
)
from millrace.report.common.tables import Column, Row, Section, Table, plain_table, text_columns
from millrace.stats.change_points import FEWEST_TO_TELL
from millrace.store.records import Origin

SPARKS = "▁▂▃▄▅▆▇█"
_SPARKLINE = 24  # characters
_WITHDRAWN = "✕"
_NEEDED = f"{FEWEST_TO_TELL} of one state of host and configuration are needed"


def sparkline(values: Sequence[float], margin: float) -> str:
    """Return the trend of positive values as signs; within the margin it hardly moves."""
    signs, n = min(len(values), _SPARKLINE), len(values)
    shown = [median(values[k * n // signs : (k + 1) * n // signs]) for k in range(signs)]
    middle = median(shown)
    low = min(*shown, middle / (1 + margin))
    high = max(*shown, middle * (1 + margin))
    steps = ((value - low) / (high - low) * len(SPARKS) for value in shown)
    return "".join(SPARKS[min(int(step), len(SPARKS) - 1)] for step in steps)


def series_row(seen: SeriesView) -> Row:
    """Return a series in one line: its newest point, its course, how many changes it has."""
    last = seen.points[-1]
    style, text = _standing(seen.changes)
    cells = (
        seen.name,
        f"{len(seen.points):,}",
        last.label,
        ratio_text(last.ratio),
        interval_text(last.low, last.high),
        sparkline([point.ratio for point in seen.points], seen.series.margin),
        "too few points" if text == MISSING and seen.too_few_points else text,
    )
    return Row(cells, style)


def series_table(rows: Sequence[Row]) -> Table:
    """Return the table of rows of series."""
    columns = (
        *text_columns("series"), Column("points"), *text_columns("newest"), Column("ratio"),
        Column("95 % interval", drop=2), Column("course", numeric=False, drop=1),
        *text_columns("changes"),
    )  # fmt: skip
    return plain_table("series", columns, rows)


def _standing(changes: Sequence[ChangeView]) -> tuple[str, str]:
    """Count the changes of each state, and return the style of the gravest."""
    facts = [each for each in changes if each.change.state == "confirmed"]
    candidates = [each for each in changes if each.change.state == "candidate" and each.is_open]
    parts = []
    if facts:
        parts.append(f"{GLYPHS[facts[-1].verdict]} {len(facts)} confirmed")
    if candidates:
        parts.append(f"{GLYPHS['inconclusive']} {counted(len(candidates), 'candidate')}")
    style = facts[-1].verdict if facts else "inconclusive" if candidates else "no verdict"
    return style, ", ".join(parts) or MISSING


def state_style(seen: ChangeView) -> str:
    """Return the verdict whose colour shows the state: its own only for a fact."""
    if seen.change.state == "confirmed":
        return seen.verdict
    return "inconclusive" if seen.change.state == "candidate" else "no verdict"


def state_glyph(seen: ChangeView) -> str:
    """Return the sign of a change's state."""
    if seen.change.state == "confirmed":
        return GLYPHS[seen.verdict]
    return GLYPHS["inconclusive"] if seen.change.state == "candidate" else _WITHDRAWN


def state_text(seen: ChangeView) -> str:
    """Return text such as ``▼ confirmed regression``, ``✕ withdrawn``."""
    change = seen.change
    text = f"{state_glyph(seen)} {change.state}"
    if change.state != "withdrawn":
        words = {"equivalent": ", within the margin", "inconclusive": ""}
        text += words.get(seen.verdict, f" {seen.verdict}")
    return f"{text}, acknowledged" if change.note else text


def place_text(seen: ChangeView) -> str:
    """Return the label of its first point, and between which it lies where that is not sure."""
    if len(seen.within) < 2:
        return seen.change.label
    return f"{seen.change.label} ({seen.within[0]} to {seen.within[-1]})"


def changes_table(groups: Sequence[ChangeGroup], others: Sequence[ChangeView]) -> Table | None:
    """Return groups of open changes, then all others; None without any."""
    columns = (
        *text_columns("series", "id", "first point"), Column("ratio"),
        Column("95 % interval", drop=2), Column("change", drop=1), *text_columns("state"),
    )  # fmt: skip
    sections = [Section(group_text(group), tuple(map(_row, group.changes))) for group in groups]
    if others:
        sections.append(Section("withdrawn, or within the margin", tuple(map(_row, others))))
    return Table("changes", columns, tuple(sections)) if sections else None


def _row(seen: ChangeView) -> Row:
    cells = (
        seen.name,
        seen.change.id,
        place_text(seen),
        ratio_text(seen.ratio),
        interval_text(seen.low, seen.high),
        change_text(seen.ratio),
        state_text(seen),
    )
    return Row(cells, state_style(seen))


def group_text(group: ChangeGroup) -> str:
    """Return text such as ``mysql-8.0.30: 7 of 12 series, −4.0 % to −19.0 % (6 candidates)``."""
    sizes = dict.fromkeys(difference_text(1 + each) for each in (group.least, group.most))
    facts = sum(each.change.state == "confirmed" for each in group.changes)
    known = sum(each.change.note is not None for each in group.changes)
    candidates = len(group.changes) - facts
    states = [f"{facts} confirmed"] if facts else []
    states += [counted(candidates, "candidate")] if candidates else []
    states += [f"{known} acknowledged"] if known else []
    of = f"{len(group.changes)} of {counted(group.n_series, 'series', 'series')}"
    where = f"{origin_text(group.origin)}{group.label}"
    return f"{where}: {of}, {' to '.join(sizes)} ({', '.join(states)})"


def nothing_moved(n_series: int, n_too_few: int) -> str:
    """Say that no change was found, and how many series have too few points to tell."""
    if n_series and n_too_few == n_series:
        return f"There are too few points to tell whether a level moved: {_NEEDED}."
    return f"No level moved; {too_few(n_too_few)}" if n_too_few else "No level moved."


def too_few(n_series: int) -> str:
    """Say that ``n_series``, at least one, have too few points for any change to be found."""
    series = counted(n_series, "series has", "series have")
    return f"{series} too few points to tell: {_NEEDED}."


def break_lines(breaks: Sequence[EnvironmentChange]) -> list[str]:
    """Return each change of the environment once, with how many series have it."""
    found = sorted((origin_text(each.origin), each.label, each.changes) for each in breaks)
    return [
        f"{of}break at {label} ({counted(len(list(same)), 'series', 'series')}): "
        f"{'; '.join(changes)}"
        for (of, label, changes), same in groupby(found)
    ]


def origin_text(origin: Origin) -> str:
    """Return what begins a line about points that were not measured here; else nothing."""
    return "" if origin == "local" else f"{origin}: "


def change_lines(seen: ChangeView) -> list[str]:
    """Describe a change, a sentence each: how it was found, measured again, and noted."""
    change = seen.change
    found = (
        f"{state_text(seen)} at {place_text(seen)}: found as {ratio_text(change.ratio)} "
        f"({interval_text(change.low, change.high)}) among {counted(change.n_points, 'point')}"
    )
    lines = [found if not change.reason else f"{found}; {change.reason}"]
    again = change.remeasured
    if again is not None:
        lines.append(
            f"measured again, {again.after} against {again.before}, "
            f"{counted(again.n_blocks, 'block')} in turns: {ratio_text(again.ratio)} "
            f"({interval_text(again.low, again.high)}), {again.verdict} (run {again.run_id})"
        )
    if change.note:
        lines.append(f"acknowledged: {change.note}")
    return lines


def next_step(changes: Sequence[ChangeView]) -> str | None:
    """Say what to do about candidates; None where there are none."""
    open_ones = [each for each in changes if each.can_be_confirmed]
    if not open_ones:
        return None
    what = counted(len(open_ones), "candidate")
    return (
        f"{what}, no fact yet: `millrace history confirm {open_ones[0].change.id}` measures before "
        "and after again, in turns."
    )
