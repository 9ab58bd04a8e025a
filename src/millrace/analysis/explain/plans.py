"""Compare how two servers execute the same statement.

Two plans are the same where tables come in the same order, are read in the same way by the same
columns of the same index, and need the same extra work. Estimates of rows do not make another plan;
nor do columns, labels and names that only some versions have (``model.observations.PlanStep``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.analysis.explain.observations import ObservedTrial
from millrace.model.observations import PlanRow, PlanStep


@dataclass(frozen=True)
class PlanSide:
    """The answer of EXPLAIN: rows as the server gives them, or why it did not.

    ``steps`` are those of the rows that can be compared; None where they are not known.
    """

    sql: str
    rows: tuple[PlanRow, ...]
    error: str | None
    steps: tuple[PlanStep, ...] | None = None


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

    def differs_for(self, worse: str) -> bool:
        """Return whether the plans differ in more than less work of the side "A" or "B"."""
        if self.same is not False:
            return False
        one, other = (self.a, self.b) if worse == "A" else (self.b, self.a)
        if one is None or other is None or one.steps is None or other.steps is None:
            return True
        return len(one.steps) != len(other.steps) or not all(map(_is_part, one.steps, other.steps))

    @property
    def is_of_interest(self) -> bool:
        """Return whether the plans differ, or only one is known; not where neither has one."""
        return not self.same and any(side is not None and side.rows for side in (self.a, self.b))


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
        name: PlanSide(plan.sql or "", plan.rows or (), plan.error, plan.steps)
        for trial in trials
        for name, plan in trial.observed.plans.items()
    }


def unlike_plans(plans: Sequence[PlanComparison]) -> tuple[str, ...]:
    """Describe how A and B read tables where they have no statement in common."""
    clauses: list[list[str]] = [[], []]
    for plan in plans:
        for found, side, label in zip(clauses, (plan.a, plan.b), "AB", strict=True):
            if side is not None:
                for step in side.steps or ():
                    how = f"{step.table} {_reading(step, explicit=True)}"
                    found.append(f"{plan.statement} ({label}) reads {how}")
    if any(plan.a is not None and plan.b is not None for plan in plans) or not all(clauses):
        return ()
    return (*clauses[0], *clauses[1])


def _is_part(step: PlanStep, of: PlanStep) -> bool:
    """Return whether a step is the other one, perhaps without some of its work."""
    return set(step.work) <= set(of.work) and step.model_copy(update={"work": of.work}) == of


def _compare(name: str, a: PlanSide | None, b: PlanSide | None) -> PlanComparison:
    if a is None or b is None or not a.rows or not b.rows or a.steps is None or b.steps is None:
        return PlanComparison(name, a, b, None, ())
    pairs = zip(a.steps, b.steps, strict=False)
    different = tuple(clause for pair in pairs for clause in _different(*pair))
    if len(a.steps) != len(b.steps):
        different = (f"{len(a.steps)} steps in A, {len(b.steps)} in B", *different)
    return PlanComparison(name, a, b, not different, different)


def _different(a: PlanStep, b: PlanStep) -> list[str]:
    found = []
    reads = [_reading(step) for step in (a, b)]
    parts = (a.key_parts, b.key_parts)
    if reads[0] == reads[1] and a.access != b.access:
        reads = [f"{read} ({step.access})" for read, step in zip(reads, (a, b), strict=True)]
    elif reads[0] == reads[1] and None not in parts and parts[0] != parts[1]:
        reads = [f"{read} ({n} of its columns)" for read, n in zip(reads, parts, strict=True)]
    if a.table != b.table:
        found.append(f"reads {a.table} {reads[0]} in A, {b.table} {reads[1]} in B")
    elif reads[0] != reads[1]:
        found.append(f"reads {a.table} {reads[0]} in A, {reads[1]} in B")
    if a.work != b.work:
        extra = [", ".join(step.work) or "none" for step in (a, b)]
        found.append(f"extra work on {b.table}: {extra[0]} in A, {extra[1]} in B")
    if a.role != b.role:
        found.append(f"{b.table} is read as {a.role} in A, as {b.role} in B")
    return found


def _reading(step: PlanStep, *, explicit: bool = False) -> str:
    """Describe how a table is read, as ``by index k alone``; if ``explicit``, with what follows."""
    key, kind = step.key, step.access
    if kind == "ALL":
        return "by a full scan"
    if not key:
        return "without an index"
    if key == "PRIMARY":
        return "by a scan of its primary key" if kind == "index" else "by its primary key"
    how = f"by a scan of index {key}" if kind == "index" else f"by index {key}"
    if step.covers:
        return f"{how} alone (Using index)" if explicit else f"{how} alone"
    return f"{how}, and looks the row of each entry up in the table" if explicit else how
