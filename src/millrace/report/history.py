"""Histories as tables, sentences, a JSON document and a page.

Within version 2 of the document keys are only added. ``docs/history.md`` describes it, and
``report/schema/history-2.schema.json`` is generated from here (a test compares them). The page has
a chart of each series, loads nothing and has no script.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from millrace import __version__
from millrace.analysis.compare.model import Verdict
from millrace.analysis.history.overview import ChangeGroup, ChangeView, SeriesView
from millrace.analysis.history.segments import EnvironmentChange, segments
from millrace.levels import Level, level_text
from millrace.model.measurements import Direction
from millrace.quantities import counted
from millrace.report.common.charts import Line, LineChart, LogAxis, Mark, Tick, path_text
from millrace.report.common.formatting import (
    GLYPHS,
    MISSING,
    change_text,
    difference_text,
    interval_text,
    ratio_text,
)
from millrace.report.common.json_parts import From, JsonPart, TextOrNull, document_text, part
from millrace.report.common.pages import environment
from millrace.report.common.tables import Column, Row, Section, Table, plain_table, text_columns
from millrace.stats.change_points import FEWEST_TO_TELL
from millrace.store.history_records import ChangeState, PointRecord, Remeasured, StateRecord
from millrace.store.records import Origin

SPARKS = "▁▂▃▄▅▆▇█"
_SPARKLINE = 24  # characters
_WITHDRAWN = "✕"
_NEEDED = f"{FEWEST_TO_TELL} of one state of host and configuration are needed"
_MOST_LABELS = 8
_LONGEST_LABEL = 16  # characters of a label below the axis


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


Version = Literal["millrace.history/2"]
VERSION: Version = "millrace.history/2"


class PointPart(JsonPart):
    """A version's ratio to the reference. Null: not known.

    `state` is the id of the environment that it was measured in, `build` the SHA-256 of the
    server's program. `origin` says whether its run was measured here (`local`) or `imported`.
    """

    label: str
    date_utc: Annotated[str, From("at_utc")]
    run: Annotated[str, From("run_id")]
    origin: Origin
    level: Level
    build: str | None
    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    state: str


class EnvironmentChangePart(JsonPart):
    """A change of the environment from the point `index` (from 0) on."""

    index: int
    label: str
    changes: list[str]


class ChangePart(JsonPart):
    """A place where the level moved; only what is confirmed is a fact.

    Ratios are new level / old level: `ratio`, `low` and `high` those of the measurement that
    confirmed it, else `found_ratio`, `found_low` and `found_high`, from `n_points` points of the
    history.

    `index` and `label` are those of the first point of the new level; `within` are the labels of
    all points that may be. `reason` says why it was withdrawn, `note` who acknowledged it;
    `remeasured` is what a measurement of its own said, after / before. Null: there is none.
    """

    WITHIN = "change"

    id: str
    index: int | None
    label: str
    within: list[str]
    state: ChangeState
    ratio: float
    low: float
    high: float
    verdict: Verdict
    found_ratio: Annotated[float, From("change.ratio")]
    found_low: Annotated[float, From("change.low")]
    found_high: Annotated[float, From("change.high")]
    n_points: int
    found_utc: str
    reason: TextOrNull
    note: str | None
    remeasured: Remeasured | None


class SeriesPart(JsonPart):
    """A series: ratios in one metric to the level `reference` of `factor`.

    `candidate` is null where runs have one candidate, or label them by level. `unexamined` points
    came after the last look for changes; `too_few_points` leave open whether a level moved. Its
    points, states and changes have one `origin`; nothing of an `imported` series was measured here.
    """

    WITHIN = "series"

    id: str
    name: str
    origin: Origin
    experiment: str
    digest: str
    factor: str
    reference: Level
    candidate: Level | None
    fixed_factors: dict[str, Level]
    metric: str
    title: str
    unit: str
    direction: Direction
    margin: float
    unexamined: int
    too_few_points: bool
    points: list[PointPart]
    environment_changes: list[EnvironmentChangePart]
    changes: list[ChangePart]


class GroupPart(JsonPart):
    """Changes (by id) of several series at one label, of `n_series` that have a point there.

    `least` and `most` are fractions, negative where it is for the worse.
    """

    label: str
    origin: Origin
    sentence: Annotated[str, From(group_text)]
    changes: Annotated[list[str], From(lambda group: [each.change.id for each in group.changes])]
    n_series: int
    least: float
    most: float


class StatePart(JsonPart):
    """A state of host and configuration: what differs between two of them is a break."""

    id: str
    host: Annotated[str, From("host_id")]
    facts: dict[str, Any]


class HistoryDocument(JsonPart):
    """Histories, and what is known of their changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    groups: list[GroupPart]
    series: list[SeriesPart]
    states: list[StatePart]


def as_json(
    series: Sequence[SeriesView], groups: Sequence[ChangeGroup], states: Mapping[str, StateRecord]
) -> str:
    """Return the series and the states they refer to as indented JSON text, with a newline."""
    used = dict.fromkeys(point.state for one in series for point in one.points)
    found = {"groups": groups, "series": series, "states": [states[state] for state in used]}
    return document_text(part(HistoryDocument, None, schema=VERSION, **found))


def as_html(series: Sequence[SeriesView], groups: Sequence[ChangeGroup]) -> str:
    """Return the whole page as text."""
    changes = [change for one in series for change in one.changes]
    points = [point for one in series for point in one.points]
    local = [point for point in points if point.origin == "local"]
    breaks = [each for one in series for each in one.environment_changes]
    template = environment(()).get_template("history.html.j2")
    return template.render(
        version=__version__,
        title="Histories",
        series=[_section(one) for one in series],
        points=counted(len(points), "point"),
        newest=max((point.at_utc for point in local or points), default=""),
        answer=_answer(groups, changes, series),
        next_step=next_step(changes),
        changes=changes_table(groups, [each for each in changes if not each.is_open]),
        environment_changes=break_lines(breaks),
        glyphs=GLYPHS,
        counted=counted,
    )


def _answer(
    groups: Sequence[ChangeGroup], changes: Sequence[ChangeView], series: Sequence[SeriesView]
) -> str:
    n_too_few = sum(one.too_few_points for one in series)
    if not groups:
        return nothing_moved(len(series), n_too_few)
    largest, origin = group_text(groups[0]), groups[0].origin
    facts = any(c.change.state == "confirmed" for c in changes if c.series.origin == origin)
    more = f"; {counted(len(groups) - 1, 'more place')} below" if len(groups) > 1 else ""
    known = "" if facts else ". Nothing of it is confirmed yet"
    few = f" {too_few(n_too_few)}" if n_too_few else ""
    return f"{largest}{more}{known}.{few}"


def _section(seen: SeriesView) -> dict[str, Any]:
    series = seen.series
    better = "above" if series.direction == "higher" else "below"
    elsewhere = "" if series.origin == "local" else ", imported: nothing of it was measured here"
    return {
        "id": series.id,
        "name": seen.name,
        "subtitle": (
            f"{series.title} relative to {level_text(series.factor, series.reference)}, {better} 1 "
            f"is better; {counted(len(seen.points), 'point')}{elsewhere}"
        ),
        "chart": history_chart(seen),
        "environment_changes": tuple(break_lines(seen.environment_changes)),
        "changes": tuple("; ".join(change_lines(change)) for change in seen.changes),
    }


@dataclass(frozen=True)
class Marker:
    """A line across the chart at ``x`` with its text and style; ``title`` says it in words."""

    x: float
    text: str
    style: str
    title: str


@dataclass(frozen=True)
class HistoryChart:
    """A series' points as lines, one for each environment; the band is the margin."""

    chart: LineChart
    environment_changes: tuple[Marker, ...]
    changes: tuple[Marker, ...]


def history_chart(seen: SeriesView) -> HistoryChart:
    """Return the chart of a series that has at least one point."""
    points, margin = seen.points, seen.series.margin
    axis = LogAxis.around(points, margin)
    places = [100 * (number + 0.5) / len(points) for number in range(len(points))]
    reference = level_text(seen.series.factor, seen.series.reference)
    chart = axis.chart(
        margin,
        heading="",
        description=(
            f"{seen.name}: {seen.series.title} relative to {reference}, "
            f"{counted(len(points), 'point')} in their order"
        ),
        across=(
            Tick(places[index], _short(points[index].label))
            for index in range(0, len(points), -(-len(points) // _MOST_LABELS))
        ),
        lines=(
            _line(number, segment, points, places, axis)
            for number, segment in enumerate(segments(points))
        ),
    )
    edge = 50 / len(points)  # halfway to the point before
    breaks = tuple(
        Marker(places[each.index] - edge, "break", "break", f"break at {each.label}: {why}")
        for each in seen.environment_changes
        for why in ["; ".join(each.changes)]
    )
    changes = tuple(
        Marker(
            places[each.index] - edge,
            f"{state_glyph(each)} {each.change.state}",
            state_style(each),
            f"{state_text(each)} at {place_text(each)}: "
            f"{change_text(each.ratio)}, "
            f"{interval_text(each.low, each.high)}",
        )
        for each in seen.changes
        if each.index is not None
    )
    return HistoryChart(chart, breaks, changes)


def _line(
    number: int,
    segment: Sequence[int],
    points: Sequence[PointRecord],
    places: Sequence[float],
    axis: LogAxis,
) -> Line:
    marks = tuple(_mark(points[index], places[index], axis) for index in segment)
    pieces = (path_text((mark.x, mark.y) for mark in marks),) if len(marks) > 1 else ()
    of = f"state {number + 1}: {points[segment[0]].label} to {points[segment[-1]].label}"
    return Line(number, of, marks, pieces)


def _mark(point: PointRecord, x: float, axis: LogAxis) -> Mark:
    interval = f" ({interval_text(point.low, point.high)})" if point.low is not None else ""
    title = (
        f"{point.label}, {point.at_utc[:10]}: {ratio_text(point.ratio)}{interval}, "
        f"{counted(point.n_blocks, 'block')}"
    )
    return axis.mark(x, point, title)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
