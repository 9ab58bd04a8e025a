"""Plans of two servers: when they are the same, and how they are not."""

from __future__ import annotations

from typing import Any

from millrace.analysis.observed import ObservedTrial
from millrace.analysis.plans import PlanComparison, compare_plans
from tests.unit.analysis.observations import Scene, Truth


def row(**columns: Any) -> dict[str, Any]:
    usual = {"id": 1, "select_type": "SIMPLE", "table": "foo", "type": "range",
             "possible_keys": "xj,xjk", "key": "xjk", "key_len": "4", "ref": None, "rows": 31_817,
             "Extra": "Using where; Using index"}  # fmt: skip
    return {**usual, **columns}


def side(*rows: dict[str, Any], error: str | None = None) -> list[ObservedTrial]:
    plans = {"q5": {"sql": "select k from foo", "rows": list(rows), "error": error}}
    truth = Truth()
    return [Scene().trial(truth, 0, {**Scene().document(truth), "plans": plans})]


def compared(a: list[ObservedTrial], b: list[ObservedTrial]) -> PlanComparison:
    (found,) = compare_plans(a, b)
    return found


def test_estimates_and_columns_of_other_versions_make_no_other_plan() -> None:
    newer = row(rows=32_064, partitions=None, filtered=100.0, key_len="5", possible_keys="xjk,xj",
                EXTRA="Using where; Using index")  # fmt: skip
    del newer["Extra"]
    found = compared(side(row()), side(newer))
    assert (found.same, found.different) == (True, ())


def test_another_index_is_another_plan() -> None:
    found = compared(side(row()), side(row(key="xj", Extra="Using where")))
    assert found.same is False
    assert found.different == (
        "key of foo: xjk in A, xj in B",
        "extra of foo: Using index in A, no extra work in B",
    )


def test_a_sort_is_another_plan() -> None:
    found = compared(side(row()), side(row(Extra="Using where; Using index; Using filesort")))
    assert found.different == ("extra of foo: Using index in A, Using filesort, Using index in B",)


def test_another_order_of_tables_is_another_plan() -> None:
    a = side(row(table="a"), row(table="b"))
    found = compared(a, side(row(table="b"), row(table="a")))
    assert found.different[0] == "table of a and b: a in A, b in B"
    fewer = compared(a, side(row(table="a")))
    assert fewer.different == ("2 steps in A, 1 in B",)


def test_a_plan_that_is_not_known_is_not_called_another() -> None:
    assert compared(side(row()), []).same is None
    failed = compared(side(row()), side(error="no such table"))
    assert (failed.same, failed.different) == (None, ())
    assert failed.b is not None
    assert failed.b.error == "no such table"
