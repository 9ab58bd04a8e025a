"""A search for a change as a JSON document."""

from __future__ import annotations

from typing import Any

from millrace.analysis.compare.bisection import Bisection, Member, change_found
from millrace.report.bisection.sentences import answer, notes
from millrace.stats.bisection import Found, Next, NoChange

VERSION = "millrace.bisection/2"


def as_json(found: Bisection) -> dict[str, Any]:
    """Return the search as one document; the ratio is new level / old level."""
    step, names = found.step, found.spec.members
    outcome = {Found: "found", NoChange: "no change", Next: "open"}[type(step)]
    document: dict[str, Any] = {
        "schema": VERSION,
        "run": found.run.id,
        "host": found.run.host.id,
        "search": found.spec.to_json(),
        "metric": found.metric.name,
        "direction": found.metric.direction,
        "outcome": "not steady" if found.unsteady else outcome,
        "unsteady": found.unsteady or None,
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
    if (change := change_found(found)) is not None:
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
