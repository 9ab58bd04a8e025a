"""A bisection as a JSON document."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.model.run_spec import Direction
from millrace.report.bisection.sentences import answer, notes
from millrace.report.common.json_parts import Part, part
from millrace.stats.bisection_model import Found, Next, NoChange

VERSION = "millrace.bisection/2"


class MemberPart(Part):
    """A server of the list; ``skipped`` says why it is passed over."""

    name: str
    values: tuple[float, ...]
    level: float | None
    skipped: str | None
    probability: float | None


class BisectionDocument(Part):
    """A search for a change; the ratio is new level / old level."""

    document_schema: str = Field(alias="schema")
    run: str
    host: str
    search: dict[str, Any]
    metric: str
    direction: Direction
    outcome: str
    unsteady: str | None
    last_good: str | None
    first_bad: list[str] | None
    probability: float | None
    ratio: float | None
    low: float | None
    high: float | None
    none: float | None
    trials: int
    members: list[MemberPart]
    answer: str
    notes: list[str]


def as_json(found: Bisection) -> dict[str, Any]:
    """Return the search as one document."""
    step, names, change = found.step, found.spec.members, change_found(found)
    outcome = {Found: "found", NoChange: "no change", Next: "open"}[type(step)]
    ratio, low, high = found.ratio or (None, None, None)
    document = part(
        BisectionDocument,
        found,
        schema=VERSION,
        run=found.run.id,
        host=found.run.host.id,
        search=found.spec.to_json(),
        metric=found.metric.name,
        direction=found.metric.direction,
        outcome="not steady" if found.unsteady else outcome,
        unsteady=found.unsteady or None,
        last_good=None if change is None else names[change.first - 1],
        first_bad=None if change is None else names[change.first : change.last + 1],
        probability=None if isinstance(step, Next) else step.probability,
        ratio=ratio,
        low=low,
        high=high,
        members=[
            part(MemberPart, member, skipped=member.skipped or None) for member in found.members
        ],
        answer=answer(found),
        notes=list(notes(found)),
    )
    return document.model_dump(mode="json", by_alias=True)
