"""How two servers would carry the same statement out, side by side.

Two plans are the same where tables come in the same order, are read in the same way by the same
index, and need the same extra work. Estimates of rows differ from load to load and from version to
version, and do not make another plan; nor do columns that a version lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.analysis.observed import ObservedTrial

_COMPARED = ("select_type", "table", "type", "key")
# Of what a plan says besides, what is work of another kind; versions phrase the rest differently.
_EXTRA_WORK = (
    "Using filesort", "Using temporary", "Using index for group-by", "Using index condition",
    "Using index", "Using join buffer", "Using MRR", "Using intersect", "Using union",
    "Using sort_union", "Impossible WHERE", "No tables used", "Backward index scan",
    "Using rowid filter", "Range checked",
)  # fmt: skip


@dataclass(frozen=True)
class PlanSide:
    """What EXPLAIN said: rows as the server gives them, or why it did not."""

    sql: str
    rows: tuple[Mapping[str, Any], ...]
    error: str | None


@dataclass(frozen=True)
class PlanComparison:
    """The plan of a statement on both servers. ``same`` is None where one is not known;
    ``different`` says in which ways they are not, a clause each."""

    statement: str
    a: PlanSide | None
    b: PlanSide | None
    same: bool | None
    different: tuple[str, ...]


def compare_plans(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[PlanComparison, ...]:
    """The plans of each statement, as the last trial that asked has them."""
    sides = [_plans(trials) for trials in (a, b)]
    return tuple(
        _compare(name, sides[0].get(name), sides[1].get(name))
        for name in dict.fromkeys(name for side in sides for name in side)
    )


def _plans(trials: Sequence[ObservedTrial]) -> dict[str, PlanSide]:
    return {
        name: PlanSide(str(plan.get("sql", "")), tuple(plan.get("rows") or ()), plan.get("error"))
        for trial in trials
        for name, plan in trial.observed.plans.items()
    }


def _compare(name: str, a: PlanSide | None, b: PlanSide | None) -> PlanComparison:
    if a is None or b is None or not a.rows or not b.rows:
        return PlanComparison(name, a, b, None, ())
    steps = [[_step(row) for row in side.rows] for side in (a, b)]
    different = tuple(clause for pair in zip(*steps, strict=False) for clause in _different(*pair))
    if len(steps[0]) != len(steps[1]):
        different = (f"{len(steps[0])} steps in A, {len(steps[1])} in B", *different)
    return PlanComparison(name, a, b, not different, different)


def _step(row: Mapping[str, Any]) -> dict[str, str]:
    """What counts of one row of EXPLAIN, without regard to the case of its columns."""
    caseless = {column.lower(): value for column, value in row.items()}
    step = {name: str(caseless.get(name) or "none") for name in _COMPARED}
    said = [part.strip() for part in str(caseless.get("extra") or "").split(";")]
    extra = {
        next(work for work in _EXTRA_WORK if part.startswith(work))
        for part in said
        if part.startswith(_EXTRA_WORK)
    }
    return {**step, "extra": ", ".join(sorted(extra)) or "no extra work"}


def _different(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    at = a["table"] if a["table"] == b["table"] else f"{a['table']} and {b['table']}"
    return [f"{name} of {at}: {a[name]} in A, {b[name]} in B" for name in a if a[name] != b[name]]
