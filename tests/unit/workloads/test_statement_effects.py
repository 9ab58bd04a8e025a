"""Test which statements of a test surely find rows, and what work they leave for later."""

from typing import Any

import pytest

from millrace import workloads
from millrace.workloads import statement_effects
from millrace.workloads.statement_effects import statement_kinds, sure_rows
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
    found = [statement_effects.n_statements(definition["statements"], test) for test in tests]
    assert found == [1 + 100 / 10, 2 + 5 / 10]


def test_statements_in_loops_are_looked_at() -> None:
    loop = {"times": 3, "steps": [{"statements": ["mine"]}, {"rollback": True}]}
    assert small({"sql": "SELECT c FROM {table}"}, steps=[loop]) == {"mine": "read"}


def test_clients_that_prepare_something_may_have_changed_the_rows() -> None:
    select = {"sql": "SELECT c FROM {table}"}
    assert small(select, client_setup=["DELETE FROM {table}"]) == {}


TABLE = {
    "create": {
        "by": "more",
        "default": "CREATE TABLE {table} (id INT, a INT, b INT, PRIMARY KEY (id), KEY a_{n} (a))",
    },
    "after_load": ["CREATE INDEX b_{n} ON {table} (b)"],
}


def kinds_of(sql: str, *, of: str = "steps", table: object = None) -> set[statement_effects.Kind]:
    step = {"statements": ["only"]}
    test: dict[str, Any] = {"steps": [step]} if of == "steps" else {"mix": [{"steps": [step]}]}
    definition = {
        "tables": {"t": table or TABLE},
        "tests": {"t": test},
        "statements": {"only": {"sql": sql}},
    }
    return statement_kinds(definition, {"test": "t"})


@pytest.mark.parametrize("of", ["steps", "mix"])
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT c\nFROM {table} WHERE id = ?", "read"),
        ("SELECT c FROM {table}\nFOR UPDATE", "other"),
        ("SELECT c FROM {table} FOR SHARE", "other"),
        ("SELECT c FROM {table} LOCK IN SHARE  MODE", "other"),
        ("SELECT c FROM {table} INTO OUTFILE 'x'", "other"),
        ("DO SLEEP(1)", "other"),
        ("UPDATE {table} SET c = c + 1 WHERE id = ?", "simple write"),
        ("update {table} set C=?, `d` = 2 where id=?", "simple write"),
        ("UPDATE {table} SET a = a + 1 WHERE id = ?", "other"),
        ("UPDATE {table} SET c = ?, B = ? WHERE id = ?", "other"),
        ("UPDATE {table} SET id = ? WHERE id = ?", "other"),
        ("UPDATE {table} SET c = (SELECT 1) WHERE id = ?", "other"),
        ("UPDATE {table} SET c = 1", "other"),  # of every row
        ("INSERT INTO {table} (id, a) VALUES (?, ?)", "simple write"),
        ("INSERT INTO {table} VALUES (NULL,?,?)", "simple write"),
        ("INSERT INTO {table} VALUES (1, 2), (3, 4)", "other"),
        ("INSERT INTO {table} SELECT * FROM {table}", "other"),
        ("INSERT INTO {table} (id) VALUES (?) ON DUPLICATE KEY UPDATE a = 1", "other"),
        ("REPLACE INTO {table} VALUES (1)", "other"),
        ("DELETE FROM {table} WHERE id = ?", "other"),
        ("", "other"),
    ],
)
def test_a_statement_is_known_by_its_whole_text(sql: str, kind: str, of: str) -> None:
    assert kinds_of(sql, of=of) == {kind}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ("id INT NOT NULL PRIMARY KEY, c CHAR(20), d DECIMAL(10, 2)", "simple write"),
        ("c INT NOT NULL PRIMARY KEY, d INT", "other"),
        ("id INT, `c` VARCHAR(20) UNIQUE", "other"),
        ("id INT, c TEXT, KEY of_c (c(10), id)", "other"),
        ("id INT, c TEXT, KEY of_c ((lower(c)))", "other"),
        ("id INT, c INT, d INT AS (c + 1), KEY (d)", "other"),
        ("id INT, c INT, t TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, KEY (t)", "other"),
    ],
)
def test_an_index_is_found_wherever_it_is_defined(columns: str, kind: str) -> None:
    table = {"create": f"CREATE TABLE {{table}} ({columns}) ENGINE={{engine}}"}
    assert kinds_of("UPDATE {table} SET c = ? WHERE id = ?", table=table) == {kind}


def test_writes_count_as_others_where_phases_execute_statements() -> None:
    definition = {
        "tables": {"t": TABLE},
        "tests": {"t": {"steps": [{"statements": ["only"]}]}},
        "statements": {"only": {"sql": "UPDATE {table} SET c = ? WHERE id = ?"}},
        "phases": [{"kind": "sql", "sql": "CREATE INDEX c ON x (c)"}],
    }
    assert statement_kinds(definition, {"test": "t"}) == {"other"}


def test_a_transaction_has_the_kinds_of_all_its_statements() -> None:
    definition = workloads.load("sysbench")
    values = workloads.parse_workload(definition).values
    found = statement_kinds(definition, values({"test": "oltp_read_write"}))
    assert found == {"read", "simple write", "other"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE {table} ADD INDEX k (k)", True),
        (" create index k on {table} (k)", True),
        ("UPDATE {table} SET a = 'ALTER TABLE'", False),
    ],
)
def test_a_test_that_makes_or_changes_tables_is_known(sql: str, expected: bool) -> None:
    test = {"client_setup": ["x"], "steps": [{"statements": ["only"]}]}
    definition = {"tests": {"t": test}, "statements": {"only": {"sql": sql}}}
    assert statement_effects.defines_tables(definition, {"test": "t"}) is expected


def test_a_client_that_prepares_itself_may_do_anything() -> None:
    test = {"client_setup": ["x"], "steps": [{"statements": ["only"]}]}
    definition = {"tests": {"t": test}, "statements": {"only": {"sql": "SELECT 1"}}}
    assert statement_kinds(definition, {"test": "t"}) == {"other"}
