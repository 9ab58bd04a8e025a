"""A search for a change among servers as sentences, a table, JSON and a page with a chart."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.analysis.compare.verdict import margin_text
from millrace.model.measurements import Direction
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.charts import LogAxis, Tick
from millrace.report.common.formatting import known_text, percent_text, value_text
from millrace.report.common.json_parts import From, JsonPart, TextOrNull, part
from millrace.report.common.pages import environment, heading
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.common.wording import imported_notes, repeating
from millrace.report.counts import comparison_notes, difference_text, sentence
from millrace.stats.bisection_model import Found, Next, NoChange
from millrace.stats.ratio import RatioEstimate
from millrace.store.records import Origin

_NEARLY_SURE = 0.999
_FUNCTIONS = 3  # that differ most


def answer(found: Bisection) -> str:
    """Return a sentence with the result of the search, or its progress."""
    names, metric, step = found.spec.members, found.metric.title, found.step
    after = counted(found.trials, "trial")
    if found.unsteady:
        return f"no answer in {metric}, after {after}: {found.unsteady}"
    if isinstance(step, Found):
        return (
            f"the change is between {names[step.first - 1]} and {_one_of(found, step)}: "
            f"{metric} is {_change(step, after)}"
        )
    if isinstance(step, NoChange):
        return (
            f"no change between {names[0]} and {names[-1]} beyond "
            f"{margin_text(found.spec.margin)}: {metric} is {_change(step, after)}"
        )
    return f"not found yet, after {after}: {likeliest(found)}"


def _one_of(found: Bisection, step: Found) -> str:
    """Return the first server with the change; servers before it that failed may be it too."""
    names = found.spec.members[step.first : step.last + 1]
    if len(names) == 1:
        return names[0]
    return f"{names[-1]} (or {', '.join(names[:-1])}, which could not be measured)"


def _change(step: Found | NoChange, after: str) -> str:
    interval = formatting.interval_text(step.low, step.high)
    said = f"ratio {interval}; probability {_sure_text(step.probability)}, {after}"
    return f"{formatting.change_text(step.ratio)} ({said})"


def _sure_text(probability: float) -> str:
    """Return a probability as text, always below 100 %."""
    if probability > _NEARLY_SURE:
        return f"above {formatting.percent_text(_NEARLY_SURE)}"
    return formatting.percent_text(probability)


def likeliest(found: Bisection) -> str:
    """Return the currently most likely place of the change as text."""
    if found.none is None:
        return "both ends are measured first"
    place = max(range(1, len(found.members)), key=lambda n: found.members[n].probability or 0.0)
    names = found.spec.members
    return (
        f"most likely between {names[place - 1]} and {names[place]} "
        f"({_sure_text(found.members[place].probability or 0.0)}); none at all "
        f"{formatting.percent_text(found.none)}"
    )


def notes(found: Bisection) -> Iterator[str]:
    """Yield notes on skipped servers, with reasons, and on instruction counts."""
    yield from imported_notes(found.run)
    for member in found.members:
        if member.skipped:
            yield f"{member.name} was passed over: {member.skipped}"
    if found.counts is not None and change_found(found) is not None:
        yield sentence(found.counts)
        for function in found.counts.functions[:_FUNCTIONS]:
            yield f"{difference_text(function)} in {function.name} with all that it calls"
        yield from comparison_notes(found.counts)


def members_table(found: Bisection) -> Table:
    """Return a table with one row per server, in the order of the list."""
    titles = (found.metric.unit, "trials", "first of the new level")
    columns = (*text_columns("server"), *map(Column, titles), Column("", numeric=False, drop=1))
    rows = []
    for place, member in enumerate(found.members):
        level = formatting.known_text(
            member.level, lambda value: formatting.value_text(value, found.metric)
        )
        probability = formatting.known_text(member.probability, formatting.percent_text)
        note = mark(found, place) or member.skipped
        rows.append(Row((member.name, level, str(len(member.values)), probability, note)))
    return plain_table(found.metric.title, columns, rows)


def mark(found: Bisection, place: int) -> str:
    """Return the mark of a server: an end of the list, or the change."""
    step = change_found(found)
    if step is not None and place == step.last:
        return "◂ the change"
    return {0: "good", len(found.members) - 1: "bad"}.get(place, "")


VERSION = "millrace.bisection/2"


class MemberPart(JsonPart):
    """A server of the list; ``skipped`` says why it is passed over."""

    name: str
    values: tuple[float, ...]
    level: float | None
    skipped: TextOrNull
    probability: float | None


class BisectionDocument(JsonPart):
    """A search for a change; the ratio is new level / old level."""

    document_schema: str = Field(alias="schema")
    run: Annotated[str, From("run.id")]
    origin: Annotated[Origin, From("run.origin")]
    host: Annotated[str, From("run.host.id")]
    search: Annotated[dict[str, Any], From(lambda found: found.spec.to_json())]
    metric: Annotated[str, From("metric.name")]
    direction: Annotated[Direction, From("metric.direction")]
    outcome: str
    unsteady: TextOrNull
    last_good: str | None
    first_bad: list[str] | None
    probability: float | None
    ratio: float | None
    low: float | None
    high: float | None
    none: float | None
    trials: int
    members: list[MemberPart]
    answer: Annotated[str, From(answer)]
    notes: Annotated[list[str], From(lambda found: list(notes(found)))]


def as_json(found: Bisection) -> dict[str, Any]:
    """Return the search as one document."""
    step, names, change = found.step, found.spec.members, change_found(found)
    outcome = {Found: "found", NoChange: "no change", Next: "open"}[type(step)]
    ratio, low, high = found.ratio or (None, None, None)
    document = part(
        BisectionDocument,
        found,
        schema=VERSION,
        outcome="not steady" if found.unsteady else outcome,
        last_good=None if change is None else names[change.first - 1],
        first_bad=None if change is None else names[change.first : change.last + 1],
        probability=None if isinstance(step, Next) else step.probability,
        ratio=ratio,
        low=low,
        high=high,
    )
    return document.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True)
class Line:
    """A server in the chart, in percent; ``is_new`` marks those from the change on."""

    name: str
    bar: float
    bar_text: str
    level_at: float | None
    points: tuple[float, ...]
    description: str
    note: str
    is_new: bool


@dataclass(frozen=True)
class Chart:
    """The posterior and the levels of all servers; ``ticks`` are differences from the good end."""

    ticks: tuple[Tick, ...]
    one_at: float
    lines: tuple[Line, ...]


def chart(found: Bisection) -> Chart | None:
    """Draw the levels of the servers; None before the good end has a value."""
    base = found.members[0].level
    if base is None:
        return None
    values = [value for member in found.members for value in member.values]
    points = [RatioEstimate(value / base, None, None, 1, 0.95, None) for value in values]
    axis = LogAxis.around(points, found.spec.margin)
    step = change_found(found)
    first_new = len(found.members) if step is None else step.last
    places = range(len(found.members))
    lines = [_line(found, place, base, axis, is_new=place >= first_new) for place in places]
    return Chart(axis.ticks(), axis.at(1.0), tuple(lines))


def _line(found: Bisection, place: int, base: float, axis: LogAxis, *, is_new: bool) -> Line:
    member = found.members[place]
    probability = member.probability or 0.0
    said = f"{percent_text(probability)} to be the first of the new level"
    if member.level is not None:
        level = value_text(member.level, found.metric)
        said += f", {level} {found.metric.unit} in {counted(len(member.values), 'trial')}"
    return Line(
        name=member.name,
        bar=100 * probability,
        bar_text=known_text(member.probability, percent_text),
        level_at=None if member.level is None else axis.at(member.level / base),
        points=tuple(axis.at(value / base) for value in member.values),
        description=f"{member.name}: {said}",
        note=mark(found, place) or member.skipped,
        is_new=is_new,
    )


def as_html(found: Bisection) -> str:
    """Return the search as a self-contained HTML page with the chart."""
    template = environment(found.spec.members).get_template("bisection.html.j2")
    return template.render(
        run=found.run,
        repeating=repeating,
        title=f"{found.spec.workload}: {found.run.title}",
        metric=found.metric,
        answer=heading(answer(found)),
        notes=list(notes(found)),
        chart=chart(found),
        table=members_table(found),
    )
