"""A search for a change as a page of its own, with a chart."""

from dataclasses import dataclass

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.quantities import counted
from millrace.report.bisection.sentences import answer, mark, members_table, notes
from millrace.report.common.charts import LogAxis, Tick
from millrace.report.common.formatting import known_text, percent_text, value_text
from millrace.report.common.pages import environment, heading
from millrace.report.common.wording import repeating
from millrace.stats.ratio import RatioEstimate


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
    """Return the search as a page of its own, with the chart; it loads nothing."""
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
