"""A bisection as a JSON document."""

from typing import Annotated, Any

from pydantic import Field

from millrace.analysis.compare.bisection import Bisection, change_found
from millrace.model.measurements import Direction
from millrace.report.bisection.sentences import answer, notes
from millrace.report.common.json_parts import From, Part, TextOrNull, part
from millrace.stats.bisection_model import Found, Next, NoChange
from millrace.store.records import Origin

VERSION = "millrace.bisection/2"


class MemberPart(Part):
    """A server of the list; ``skipped`` says why it is passed over."""

    name: str
    values: tuple[float, ...]
    level: float | None
    skipped: TextOrNull
    probability: float | None


class BisectionDocument(Part):
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
