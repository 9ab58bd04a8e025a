"""Test that real servers' plans are read as the same steps, whatever versions call them."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.mysql.plan_steps import explains_of, plain, plan_steps, verb_of
from millrace.model.observations import PlanStep
from tests.unit.databases.mysql.observables import observable


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
        "Backward index scan", "Using index condition", "Using MRR", "Rowid-ordered scan",
        "Using where", "Using where with pushed condition", "Distinct",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        ("SELECT 1", "SELECT"),
        (" \n( select 1) UNION (SELECT 2)", "SELECT"),
        ("/* a */ /*b*/UPDATE t SET k = 1", "UPDATE"),
        ("-- what it does\nDELETE FROM t", "DELETE"),
        ("# so\nINSERT INTO t VALUES (1)", "INSERT"),
        ("COMMIT", "COMMIT"),
        ("", ""),
        ("?", ""),
    ],
)
def test_the_first_word_of_a_statement(sql: str, verb: str) -> None:
    assert verb_of(sql) == verb


@given(st.text())
def test_any_text_has_a_verb_or_none(sql: str) -> None:
    verb = verb_of(sql)
    assert verb == "" or (verb.isascii() and verb.isalpha())


@pytest.mark.parametrize(
    ("family", "version", "form", "yes", "no"),
    [
        ("mysql", "5.5.9", "EXPLAIN {sql}", "SELECT", "UPDATE"),
        ("mysql", "5.6.24", "EXPLAIN FORMAT=TRADITIONAL {sql}", "UPDATE", "COMMIT"),
        ("mysql", "9.7.4", "EXPLAIN FORMAT=TRADITIONAL {sql}", "WITH", "BEGIN"),
        ("mariadb", "5.5.60", "EXPLAIN {sql}", "SELECT", "DELETE"),
        ("mariadb", "10.1.23", "EXPLAIN {sql}", "DELETE", "WITH"),
        ("mariadb", "11.8.9", "EXPLAIN {sql}", "WITH", "HANDLER"),
    ],
)
def test_versions_differ_in_what_they_explain(
    family: str, version: str, form: str, yes: str, no: str
) -> None:
    explains = explains_of(observable(family), version)
    assert explains.form == form
    assert yes in explains.verbs
    assert no not in explains.verbs


def test_a_row_of_a_plan_is_as_json_has_it() -> None:
    # MariaDB 10.11 reports rows as text, MySQL 5.7 the share as a decimal.
    assert plain(
        {"id": 1, "table": "t", "ref": None, "rows": "1", "filtered": Decimal("99.5")}
    ) == {
        "id": 1,
        "table": "t",
        "ref": None,
        "rows": 1,
        "filtered": 99.5,
    }
    assert plain({"rows": "10 (5%)"}) == {"rows": "10 (5%)"}
    assert plain({"rows": None}) == {"rows": None}
    assert plain({"explain": b"-> x"}) == {"explain": "-> x"}
