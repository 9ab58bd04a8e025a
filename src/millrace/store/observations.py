"""Read and write an attempt's observations: one JSON object per server, in a file.

Much of the data comes from servers, so it is validated before it is stored, and size limits apply
when it is read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from millrace import databases, safe_json
from millrace.errors import UserError
from millrace.model.observations import Observations
from millrace.model.roles import MEASURED
from millrace.model.steady_limits import SteadyLimits
from millrace.store import checked
from millrace.store.checked import OF_A_FILE
from millrace.store.records import AttemptResult, InstanceRecord, NewArtefact

KIND = "observations"


def files(result: AttemptResult) -> Iterator[NewArtefact]:
    """Yield one file for each observed server of an attempt."""
    for role, observed in result.observations.items():
        if observed:
            yield NewArtefact(KIND, role, _content(observed))


def parse(content: bytes) -> Observations:
    """Parse a file of observations; raise ValueError if it is invalid."""
    return checked.document(KIND, Observations, safe_json.parse_object(content, OF_A_FILE))


def readable(observed: Mapping[str, object]) -> Mapping[str, object]:
    """Return the observations, or only the reason if they are invalid and cannot be stored."""
    try:
        parse(_content(observed))
    except (ValueError, RecursionError) as error:
        lack = {"observer": "all", "what": f"the observations cannot be stored: {error}"}
        return {"missing": [{**lack, "hint": None}]}
    return observed


def _content(observed: Mapping[str, object]) -> bytes:
    text = json.dumps(observed, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def in_neutral_terms(found: Observations, family: str) -> Observations:
    """Return observations with counters and plans in terms that all families share."""
    try:
        monitoring = databases.get(family).monitoring
    except UserError:
        return found
    changes: dict[str, object] = {}
    if (status := found.status) is not None:
        counters = monitoring.neutral_counters(status.grown)
        changes["status"] = status.model_copy(update={"counters": counters})
    if found.plans is not None:
        changes["plans"] = {
            name: plan.model_copy(update={"steps": monitoring.plan_steps(plan.rows or ())})
            for name, plan in found.plans.items()
        }
    return found.model_copy(update=changes)


def limits_of(instances: Sequence[InstanceRecord]) -> SteadyLimits:
    """Return the measured server's limits of a steady state; the defaults for unknown families."""
    server = next((each for each in instances if each.role in MEASURED), None)
    if server is None:
        return SteadyLimits()
    try:
        family = databases.get(server.server.family)
    except UserError:
        return SteadyLimits()
    return family.storage.limits(server.effective)
