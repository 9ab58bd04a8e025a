"""Test which statements a version explains, and the rows of a plan."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.mysql.explain import explains_of, plain, verb_of
from tests.unit.databases.mysql.observables import observable


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
