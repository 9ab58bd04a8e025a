"""A search for a change among servers: sentences, a table, JSON, and a page of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from millrace.analysis.bisected import Bisection, Member
from millrace.analysis.verdict import margin_text
from millrace.report.common.axis import LogAxis, Tick
from millrace.report.common.formatting import (
    MISSING,
    change_text,
    counted,
    interval_text,
    percent_text,
    value_text,
)
from millrace.report.common.pages import environment
from millrace.report.repeating import repeating
from millrace.report.run.tables import Column, Row, Section, Table
from millrace.stats import RatioEstimate
from millrace.stats.bisection import Found, Next, NoChange

VERSION = "millrace.bisection/1"

_NEARLY_SURE = 0.999


def answer(found: Bisection) -> str:
    """What was found, or how far it has come, in a sentence."""
    names, metric, step = found.bisects.members, found.metric.title, found.step
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
            f"{margin_text(found.bisects.margin)}: {metric} is {_change(step, after)}"
        )
    return f"not found yet, after {after}: {likeliest(found)}"


def _one_of(found: Bisection, step: Found) -> str:
    """The first server of the new level; those that could not be measured may be it too."""
    names = found.bisects.members[step.first : step.last + 1]
    if len(names) == 1:
        return names[0]
    return f"{names[-1]} (or {', '.join(names[:-1])}, which could not be measured)"


def _change(step: Found | NoChange, after: str) -> str:
    return (
        f"{change_text(step.ratio)} (ratio {interval_text(step.low, step.high)}; probability "
        f"{_sure_text(step.probability)}, {after})"
    )


def _sure_text(probability: float) -> str:
    """No answer is certain, so that none is told with 100 %."""
    if probability > _NEARLY_SURE:
        return f"above {percent_text(_NEARLY_SURE)}"
    return percent_text(probability)


def likeliest(found: Bisection) -> str:
    """Where the change is likeliest to be so far."""
    if found.none is None:
        return "both ends are measured first"
    place = max(range(1, len(found.members)), key=lambda n: found.members[n].probability or 0.0)
    names = found.bisects.members
    return (
        f"most likely between {names[place - 1]} and {names[place]} "
        f"({_sure_text(found.members[place].probability or 0.0)}); none at all "
        f"{percent_text(found.none)}"
    )


def notes(found: Bisection) -> Iterator[str]:
    """Which servers were passed over, and why."""
    for member in found.members:
        if member.skipped:
            yield f"{member.name} was passed over: {member.skipped}"


def members_table(found: Bisection) -> Table:
    """A row a server, in the order of the list."""
    columns = (
        Column("server", numeric=False),
        Column(found.metric.unit),
        Column("trials"),
        Column("first of the new level"),
        Column("", numeric=False, drop=1),
    )
    rows = tuple(
        Row(
            (
                member.name,
                MISSING if member.level is None else value_text(member.level, found.metric),
                str(len(member.values)),
                MISSING if member.probability is None else percent_text(member.probability),
                _mark(found, place) or member.skipped,
            )
        )
        for place, member in enumerate(found.members)
    )
    return Table(found.metric.title, columns, (Section("", rows),))


def _change_found(found: Bisection) -> Found | None:
    """The change, where there is one and nothing speaks against it."""
    return found.step if isinstance(found.step, Found) and not found.unsteady else None


def _mark(found: Bisection, place: int) -> str:
    step = _change_found(found)
    if step is not None and place == step.last:
        return "◂ the change"
    return {0: "good", len(found.members) - 1: "bad"}.get(place, "")


def as_json(found: Bisection) -> dict[str, Any]:
    """The search as one document; the ratio is new level / old level."""
    step, names = found.step, found.bisects.members
    outcome = {Found: "found", NoChange: "no change", Next: "open"}[type(step)]
    document: dict[str, Any] = {
        "schema": VERSION,
        "run": found.run.id,
        "host": found.run.host.id,
        "bisects": asdict(found.bisects),
        "metric": found.metric.name,
        "direction": found.metric.direction,
        "outcome": "not steady" if found.unsteady else outcome,
        "not_steady": found.unsteady or None,
        "last_good": None,
        "first_bad": None,
        "probability": None,
        "ratio": None,
        "low": None,
        "high": None,
        "none": found.none,
        "trials": found.trials,
        "members": [_member_json(member) for member in found.members],
        "answer": answer(found),
        "notes": list(notes(found)),
    }
    if not isinstance(step, Next):
        document |= {
            "probability": step.probability,
            "ratio": step.ratio,
            "low": step.low,
            "high": step.high,
        }
    if (change := _change_found(found)) is not None:
        document |= {
            "last_good": names[change.first - 1],
            "first_bad": list(names[change.first : change.last + 1]),
        }
    return document


def _member_json(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "values": list(member.values),
        "level": member.level,
        "skipped": member.skipped or None,
        "probability": member.probability,
    }


@dataclass(frozen=True)
class Line:
    """A server in the chart: its probability as a bar, its level and its values as points, all in
    percent of the width. ``is_new`` marks those from the change on."""

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
    """The posterior and the levels of all servers; ``ticks`` are of the levels, as differences from
    the good end."""

    ticks: tuple[Tick, ...]
    one_at: float
    lines: tuple[Line, ...]


def chart(found: Bisection) -> Chart | None:
    """None before the good end has a value."""
    base = found.members[0].level
    if base is None:
        return None
    ratios = [value / base for member in found.members for value in member.values]
    axis = LogAxis.around([_point(ratio) for ratio in ratios], found.bisects.margin)
    step = _change_found(found)
    first_new = len(found.members) if step is None else step.last
    return Chart(
        axis.ticks(),
        axis.at(1.0),
        tuple(
            _line(found, place, base, axis, is_new=place >= first_new)
            for place in range(len(found.members))
        ),
    )


def _point(ratio: float) -> RatioEstimate:
    return RatioEstimate(ratio, None, None, 1, 0.95, None)


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
        bar_text=MISSING if member.probability is None else percent_text(probability),
        level_at=None if member.level is None else axis.at(member.level / base),
        points=tuple(axis.at(value / base) for value in member.values),
        description=f"{member.name}: {said}",
        note=_mark(found, place) or member.skipped,
        is_new=is_new,
    )


def as_html(found: Bisection) -> str:
    """The search as a page of its own, with the chart; it loads nothing."""
    names: Sequence[str] = found.bisects.members
    text = answer(found)
    return (
        environment(names)
        .get_template("bisection.html.j2")
        .render(
            run=found.run,
            repeating=repeating,
            title=f"{found.bisects.workload}: {found.run.title}",
            metric=found.metric,
            answer=text[:1].upper() + text[1:],
            notes=list(notes(found)),
            chart=chart(found),
            table=members_table(found),
        )
    )
