"""Compare how two servers execute the same statement.

Two plans are the same where tables come in the same order, are read in the same way by the same
index, and need the same extra work. Estimates of rows do not make another plan; nor do columns that
a version lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.plan_steps import plan_steps
from millrace.model.observations import PlanRow


@dataclass(frozen=True)
class PlanSide:
    """The answer of EXPLAIN: rows as the server gives them, or why it did not."""

    sql: str
    rows: tuple[PlanRow, ...]
    error: str | None


@dataclass(frozen=True)
class PlanComparison:
    """The plan of a statement on both servers; ``same`` is None where one is not known.

    ``different`` says in which ways they are not the same, a clause each.
    """

    statement: str
    a: PlanSide | None
    b: PlanSide | None
    same: bool | None
    different: tuple[str, ...]


def compare_plans(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[PlanComparison, ...]:
    """Return the plans of each statement, as the last trial that asked has them."""
    sides = [_plans(trials) for trials in (a, b)]
    return tuple(
        _compare(name, sides[0].get(name), sides[1].get(name))
        for name in dict.fromkeys(name for side in sides for name in side)
    )


def _plans(trials: Sequence[ObservedTrial]) -> dict[str, PlanSide]:
    return {
        name: PlanSide(plan.sql or "", plan.rows or (), plan.error)
        for trial in trials
        for name, plan in trial.observed.plans.items()
    }


def unlike_plans(plans: Sequence[PlanComparison]) -> tuple[str, ...]:
    """Describe how A and B read tables where they have no statement in common."""
    clauses: list[list[str]] = [[], []]
    for plan in plans:
        for found, side, label in zip(clauses, (plan.a, plan.b), "AB", strict=True):
            if side is not None:
                for step in plan_steps(side.rows):
                    how = f"{step['table']} {_reading(step, explicit=True)}"
                    found.append(f"{plan.statement} ({label}) reads {how}")
    if any(plan.a is not None and plan.b is not None for plan in plans) or not all(clauses):
        return ()
    return (*clauses[0], *clauses[1])


def _compare(name: str, a: PlanSide | None, b: PlanSide | None) -> PlanComparison:
    if a is None or b is None or not a.rows or not b.rows:
        return PlanComparison(name, a, b, None, ())
    steps = [plan_steps(side.rows) for side in (a, b)]
    different = tuple(clause for pair in zip(*steps, strict=False) for clause in _different(*pair))
    if len(steps[0]) != len(steps[1]):
        different = (f"{len(steps[0])} steps in A, {len(steps[1])} in B", *different)
    return PlanComparison(name, a, b, not different, different)


def _different(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    found = []
    reads = [_reading(step) for step in (a, b)]
    if reads[0] == reads[1] and a["type"] != b["type"]:
        reads = [f"{read} ({step['type']})" for read, step in zip(reads, (a, b), strict=True)]
    if a["table"] != b["table"]:
        found.append(f"reads {a['table']} {reads[0]} in A, {b['table']} {reads[1]} in B")
    elif reads[0] != reads[1]:
        found.append(f"reads {a['table']} {reads[0]} in A, {reads[1]} in B")
    if a["extra"] != b["extra"]:
        found.append(f"extra work on {b['table']}: {a['extra']} in A, {b['extra']} in B")
    if a["select_type"] != b["select_type"]:
        found.append(f"{b['table']} is read as {a['select_type']} in A, as {b['select_type']} in B")
    return found


def _reading(step: Mapping[str, str], *, explicit: bool = False) -> str:
    """Describe how a table is read, as ``by index k alone``; if ``explicit``, with what follows."""
    key, kind = step["key"], step["type"]
    if kind == "ALL":
        return "by a full scan"
    if key == "none":
        return "without an index"
    if key == "PRIMARY":
        return "by a scan of its primary key" if kind == "index" else "by its primary key"
    how = f"by a scan of index {key}" if kind == "index" else f"by index {key}"
    if "Using index" in step["extra"].split(", "):
        return f"{how} alone (Using index)" if explicit else f"{how} alone"
    return f"{how}, and looks the row of each entry up in the table" if explicit else how
