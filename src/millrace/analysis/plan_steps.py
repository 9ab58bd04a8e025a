"""Bring the plans of statements into a form in which servers of any version can be compared."""

from collections.abc import Mapping, Sequence

from millrace.model.observations import PlanRow, QueryPlan

ComparablePlans = Mapping[str, tuple[tuple[str, ...], ...]]
"""The plan of each statement, by its name: the columns of each step that are compared."""

_COMPARED = ("select_type", "table", "type", "key")
_PUT_IN = ("INSERT", "REPLACE")
_CHANGES = ("UPDATE", "DELETE")
# Of what a plan says besides, what is work of another kind; versions phrase the rest differently.
_EXTRA_WORK = (
    "Using filesort", "Using temporary", "Using index for group-by", "Using index condition",
    "Using index", "Using join buffer", "Using MRR", "Using intersect", "Using union",
    "Using sort_union", "Impossible WHERE", "No tables used", "Backward index scan",
    "Using rowid filter", "Range checked",
)  # fmt: skip


def executed_plans(plans: Mapping[str, QueryPlan]) -> ComparablePlans:
    """Return the plan of each explained statement in comparable form."""
    return {
        name: tuple(tuple(step.values()) for step in plan_steps(plan.rows))
        for name, plan in plans.items()
        if plan.rows
    }


def plan_steps(rows: Sequence[PlanRow]) -> list[dict[str, str]]:
    """Return EXPLAIN's rows in comparable form, but those that only some versions have."""
    return [
        step
        for step in map(_step, rows)
        if step["select_type"] not in _PUT_IN
        and not (step["table"] == "none" and step["extra"] == "No tables used")
    ]


def _step(row: PlanRow) -> dict[str, str]:
    """Return one row of EXPLAIN in comparable form, without regard to the case of its columns."""
    caseless = {column.lower(): value for column, value in row.items()}
    step = {name: str(caseless.get(name) or "none") for name in _COMPARED}
    if step["select_type"] in _CHANGES:  # older versions call them simple
        step["select_type"] = "SIMPLE"
    said = [part.strip() for part in str(caseless.get("extra") or "").split(";")]
    extra = {
        next(work for work in _EXTRA_WORK if part.startswith(work))
        for part in said
        if part.startswith(_EXTRA_WORK)
    }
    return {**step, "extra": ", ".join(sorted(extra)) or "no extra work"}
