"""Test that real servers' plans are read as the same steps, whatever versions call them."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.databases.mysql.plan_steps import plan_steps
from millrace.model.observations import PlanStep


def row(**columns: Any) -> dict[str, Any]:
    usual = {"id": 1, "select_type": "SIMPLE", "table": "item", "type": "ref",
             "possible_keys": "k", "key": "k", "key_len": "4", "ref": "const", "rows": 4,
             "Extra": None}  # fmt: skip
    return {**usual, **columns}


def one(**columns: Any) -> PlanStep:
    (step,) = plan_steps([row(**columns)])
    return step


def test_step_has_table_access_key_and_its_columns() -> None:
    assert one(ref="const,d.a.id", Extra="Using where; Using index; Using filesort") == PlanStep(
        role="query", table="item", access="ref", key="k", key_parts=2, covers=True,
        work=("a sort",),
    )  # fmt: skip
    assert one(type="range", ref=None).key_parts is None


@pytest.mark.parametrize(
    "label",
    [
        "Backward index scan",
        "Using index condition",
        "Using MRR",
        "Rowid-ordered scan",
        "Using where",
        "Using where with pushed condition",
        "Distinct",
    ],
)
def test_labels_of_some_versions_do_not_count(label: str) -> None:
    assert one(Extra=label) == one()
    assert one(Extra=f"Using where; {label}; Using filesort") == one(Extra="Using filesort")


def test_select_types_of_one_query_are_alike() -> None:
    assert one(select_type="PRIMARY") == one(select_type="UPDATE") == one()
    assert one(select_type="DERIVED") == one(select_type="MATERIALIZED")
    assert one(select_type="DERIVED").role == "materialised"
    assert one(select_type="DEPENDENT SUBQUERY").role == "executed for each row"


def test_columns_are_found_in_capitals_too() -> None:
    assert plan_steps([{name.upper(): value for name, value in row().items()}]) == (one(),)


@pytest.mark.parametrize(
    ("labels", "work"),
    [
        (
            # MySQL to 8.0.17, and MariaDB
            ("Using join buffer (Block Nested Loop)", "Using join buffer (flat, BNL join)",
             "Using join buffer", "Using join buffer (incremental, BNL join)"),
            "a join by nested loops",
        ),
        (("Using join buffer (hash join)", "Using join buffer (flat, BNLH join)"), "a hash join"),
        (
            ("Using join buffer (Batched Key Access)", "Using join buffer (flat, BKA join)"),
            "a join by batches of keys",
        ),
        (("Using temporary", "Start temporary"), "a temporary table"),
        (("Using intersect(a,b)",), "an intersection of indexes"),
        (("Using rowid filter",), "a filter by another index"),
    ],
)  # fmt: skip
def test_work_has_one_name_in_all_versions(labels: tuple[str, ...], work: str) -> None:
    assert {one(Extra=label).work for label in labels} == {(work,)}


def test_hash_join_of_mariadb_reads_the_table_as_that_of_mysql() -> None:
    mysql = one(type="ALL", key=None, ref=None, Extra="Using where; Using join buffer (hash join)")
    mariadb = one(
        type="hash_ALL", key="#hash#$hj", ref="d.a.kind",
        Extra="Using where; Using join buffer (flat, BNLH join)",
    )  # fmt: skip
    assert mysql == mariadb


def test_row_filter_of_mariadb_is_work_of_the_same_access() -> None:
    found = one(type="ref|filter", key="k|name", Extra="Using where; Using rowid filter")
    assert (found.access, found.key, found.work) == ("ref", "k", ("a filter by another index",))


def test_tables_and_keys_that_a_server_makes_have_one_name() -> None:
    mysql = one(table="<derived2>", key="<auto_key0>")
    assert mysql == one(table="<subquery2>", key="key0")
    assert (mysql.table, mysql.key) == ("<2>", "made for it")
    assert one(key="key0").key == "key0"


def test_rows_of_a_change_itself_are_no_steps() -> None:
    assert plan_steps([row(select_type="INSERT", type="ALL", key=None)]) == ()
    assert plan_steps([row(table=None, type=None, key=None, Extra="No tables used")]) == ()
