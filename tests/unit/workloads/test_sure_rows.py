from typing import Any

import pytest

from millrace import workloads
from millrace.workloads.sure_rows import n_statements, sure_rows
from tests.support.small_workload import driving


def of_builtin(workload: str, test: str, **chosen: Any) -> dict[str, str]:
    definition = workloads.load(workload)
    values = workloads.parse_workload(definition).values({**chosen, "test": test})
    return dict(sure_rows(definition, values))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("point-query", {"point_select": "read"}),
        ("points-covered-pk", {"points_covered_pk": "read"}),
        ("hot-points", {"hot_points": "read"}),
        ("range-covered-pk", {"range_covered_pk": "read"}),
        ("range-covered-si", {}),  # random values may be missing in the table
        ("scan", {}),
        ("oltp_delete", {}),
        ("delete", {"delete_each": "changed"}),
        ("update-index", {"index_update": "changed"}),
        ("update-one", {"update_one": "changed"}),
        (
            "oltp_write_only",
            {"index_update": "changed", "non_index_update": "changed", "delete": "changed"},
        ),
    ],
)
def test_tests_of_sysbench(test: str, expected: dict[str, str]) -> None:
    assert of_builtin("sysbench", test) == expected


def small(statement: dict[str, Any], **changes: Any) -> dict[str, str]:
    """Return what is sure of one statement in a test of its own."""
    definition = driving()
    definition["statements"]["mine"] = statement
    definition["tests"]["point"] = {"title": "mine", "steps": [{"statements": ["mine"]}], **changes}
    definition["generators"]["beyond"] = {"kind": "integer", "low": 1, "high": "{table_size}+1"}
    values = workloads.parse_workload(definition).values({"test": "point"})
    return dict(sure_rows(definition, values))


@pytest.mark.parametrize(
    "statement",
    [
        {"sql": "SELECT c FROM {table}"},
        {"sql": "select c\nfrom {table} where id >= 1000 order by id limit 3"},
        {"sql": "SELECT c FROM {table} WHERE id BETWEEN ? AND ?", "parameters": ["id", "last"]},
    ],
)
def test_what_names_loaded_rows_reads_them(statement: dict[str, Any]) -> None:
    assert small(statement) == {"mine": "read"}


@pytest.mark.parametrize(
    "statement",
    [
        {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["beyond"]},
        {"sql": "SELECT c FROM {table} WHERE id = 1001"},
        {"sql": "SELECT c FROM {table} WHERE k = ?", "parameters": ["id"]},
        {"sql": "SELECT c FROM {table} WHERE id = ? AND k = 3", "parameters": ["id"]},
        {"sql": "SELECT c FROM {table} WHERE id = ? LIMIT 0", "parameters": ["id"]},
        {"sql": "SELECT c FROM {table} WHERE id BETWEEN ? AND ?", "parameters": ["id", "id"]},
        {"sql": "SELECT c FROM {table} WHERE id BETWEEN ?", "parameters": ["id"]},
        {"sql": "UPDATE {table} SET k = ? WHERE id = ?", "parameters": ["id", "id"]},
        {"sql": "UPDATE {table} SET id = id + 1 WHERE id = ?", "parameters": ["id"]},
        {"sql": "DELETE FROM {table} WHERE id = ?", "parameters": ["id"]},
    ],
)
def test_what_may_find_nothing_is_not_listed(statement: dict[str, Any]) -> None:
    assert small(statement) == {}


def test_a_statement_of_many_rows_counts_as_several() -> None:
    definition = workloads.load("insert-benchmark")
    tests = [definition["tests"][name] for name in ("l.i0", "l.i2")]
    found = [n_statements(definition["statements"], test) for test in tests]
    assert found == [1 + 100 / 10, 2 + 5 / 10]


def test_statements_in_loops_are_looked_at() -> None:
    loop = {"times": 3, "steps": [{"statements": ["mine"]}, {"rollback": True}]}
    assert small({"sql": "SELECT c FROM {table}"}, steps=[loop]) == {"mine": "read"}


def test_clients_that_prepare_something_may_have_changed_the_rows() -> None:
    select = {"sql": "SELECT c FROM {table}"}
    assert small(select, client_setup=["DELETE FROM {table}"]) == {}
