"""Test plans of two servers: when they are equal, and how they differ."""

from typing import Any

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.plans import PlanComparison, compare_plans, unlike_plans
from tests.support.known import known
from tests.support.observed_trials import Scene, Truth


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
    assert found.different == ("reads foo by index xjk alone in A, by index xj in B",)


def test_a_sort_is_another_plan() -> None:
    found = compared(side(row()), side(row(Extra="Using where; Using index; Using filesort")))
    assert found.different == ("extra work on foo: none in A, a sort in B",)


def test_plan_that_only_does_less_is_none_of_the_worse_side() -> None:
    """MySQL to 5.7 also sorts the groups of GROUP BY."""
    a, b = (side(row(Extra=extra)) for extra in ("Using temporary; Using filesort",
                                                 "Using temporary"))  # fmt: skip
    found = compared(a, b)
    assert found.same is False
    assert (found.differs_for("A"), found.differs_for("B")) == (True, False)
    assert compared(a, side(row(key="xj", Extra="Using temporary"))).differs_for("B")
    assert compared(a, side(row(Extra="Using temporary"), row(table="b"))).differs_for("B")
    assert not compared(a, a).differs_for("A")
    assert not compared(a, []).differs_for("A")


def test_another_order_of_tables_is_another_plan() -> None:
    a = side(row(table="a"), row(table="b"))
    found = compared(a, side(row(table="b"), row(table="a")))
    assert found.different[0] == "reads a by index xjk alone in A, b by index xjk alone in B"
    fewer = compared(a, side(row(table="a")))
    assert fewer.different == ("2 steps in A, 1 in B",)


def test_a_plan_that_is_not_known_is_not_called_another() -> None:
    assert compared(side(row()), []).same is None
    failed = compared(side(row()), side(error="no such table"))
    assert (failed.same, failed.different) == (None, ())
    assert known(failed.b).error == "no such table"


def test_a_dropped_index() -> None:
    found = compared(side(row(key="k", Extra=None)), side(row(key=None, type="ALL", Extra=None)))
    assert found.different == ("reads foo by index k in A, by a full scan in B",)


def test_another_way_through_the_same_index() -> None:
    found = compared(side(row()), side(row(type="ref")))
    assert found.different == (
        "reads foo by index xjk alone (range) in A, by index xjk alone (ref) in B",
    )


def test_that_a_row_is_inserted_is_no_plan() -> None:
    """Versions show it in rows of their own, with the table or without."""
    older = row(table=None, type=None, key=None, Extra="No tables used")
    newer = row(select_type="INSERT", table="foo", type="ALL", key=None, Extra=None)
    found = compared(side(older), side(newer))
    assert (found.same, found.different) == (True, ())
    assert compared(side(row(), newer), side(row())).same


def test_labels_of_one_version_make_no_other_plan() -> None:
    newer = row(Extra="Using where; Backward index scan; Using index")
    assert compared(side(row()), side(newer)).same
    pushed = [row(key="xj", Extra=extra) for extra in ("Using where", "Using index condition")]
    assert compared(side(pushed[0]), side(pushed[1])).same


def test_another_number_of_columns_is_another_plan() -> None:
    one, two = (row(type="ref", ref=ref) for ref in ("const", "const,const"))
    (clause,) = compared(side(one), side(two)).different
    assert clause == (
        "reads foo by index xjk alone (1 of its columns) in A, by index xjk alone (2 of its "
        "columns) in B"
    )


def test_statements_that_neither_explains_are_of_no_interest() -> None:
    errors = ("You have an error near 'COMMIT'", "You have an error in your syntax near 'COMMIT'")
    begin = compared(side(error=errors[0]), side(error=errors[1]))
    assert (begin.same, begin.is_of_interest) == (None, False)
    assert compared(side(row()), side(error=errors[1])).is_of_interest
    assert compared(side(row()), []).is_of_interest
    assert compared(side(row()), side(row(key="xj"))).is_of_interest
    assert not compared(side(row()), side(row())).is_of_interest


def test_what_versions_call_a_change_is_no_plan() -> None:
    assert compared(side(row(select_type="SIMPLE")), side(row(select_type="UPDATE"))).same


def test_other_statements_are_set_against_each_other() -> None:
    def asked(name: str, *rows: dict[str, Any]) -> list[ObservedTrial]:
        plans = {name: {"sql": "select", "rows": list(rows), "error": None}}
        truth = Truth()
        return [Scene().trial(truth, 0, {**Scene().document(truth), "plans": plans})]

    alone, looking_up = row(), row(key="xj", Extra="Using index condition")
    assert unlike_plans(compare_plans(asked("covering", alone), asked("si", looking_up))) == (
        "covering (A) reads foo by index xjk alone (Using index)",
        "si (B) reads foo by index xj, and looks the row of each entry up in the table",
    )
    assert unlike_plans(compare_plans(asked("si", alone), asked("si", looking_up))) == ()
    assert unlike_plans(compare_plans(asked("si", alone), [])) == ()
