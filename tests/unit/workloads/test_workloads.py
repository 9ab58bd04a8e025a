"""Test workload definitions: the shipped ones are valid, and all errors in one are reported."""

from __future__ import annotations

from typing import Any

import pytest

from millrace import workloads
from millrace.errors import UserError, ValidationError
from tests.unit.workloads.small import driving


def definition(**changes: Any) -> dict[str, Any]:
    return {**workloads.load("load-data"), **changes}


@pytest.mark.parametrize("name", workloads.names())
def test_every_shipped_workload_is_right_and_named_like_its_file(name: str) -> None:
    assert workloads.parse_workload(workloads.load(name)).name == name


def test_an_unknown_workload_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'load-data'"):
        workloads.load("load-dta")


def test_statements_are_chosen_by_level_and_filled_in() -> None:
    workload = workloads.parse_workload(workloads.load("load-data"))
    create, finish = workload.phases[0], workload.phases[2]
    assert create.statements({"engine": "MyISAM", "table_options": "X=1"}, {})[0].endswith(
        "ENGINE=MyISAM X=1"
    )
    assert finish.statements({"engine": "InnoDB"}, {}) == ("COMMIT",)
    assert finish.statements({"engine": "MyISAM"}, {}) == ("FLUSH TABLES",)
    assert finish.statements({"engine": "RocksDB"}, {}) == ("COMMIT", "FLUSH TABLES")
    assert finish.statements({"engine": "myisam"}, {}) == ("FLUSH TABLES",)


def test_no_value_adds_a_statement() -> None:
    phase = workloads.Phase(name="a", kind="sql", sql="SET x = {x}; COMMIT;")
    assert phase.statements({"x": "1; DROP DATABASE y"}, {}) == (
        "SET x = 1; DROP DATABASE y",
        "COMMIT",
    )


DROP: dict[str, Any] = {
    "by": "drop",
    "tables": "dropped",
    "sql": {"default": "SET x = {x}; DROP TABLE {table}", "database": "DROP DATABASE d{x}"},
}


def test_a_statement_that_names_a_table_is_sent_for_each() -> None:
    tables = {
        "dropped": workloads.parse_workload(workloads.load("drop-table")).tables["dropped"],
    }
    sent = workloads.Phase(name="a", kind="sql", **DROP)
    assert sent.statements({"drop": "tables", "x": 7, "dropped_tables": 2}, tables) == (
        "SET x = 7",
        "DROP TABLE dropped1",
        "DROP TABLE dropped2",
    )
    assert sent.statements({"drop": "database", "x": 7, "dropped_tables": 2}, tables) == (
        "DROP DATABASE d7",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maintenance": {"sql": "DROP TABLE {table}"}}, "unknown {table}"),
        ({"maintenance": {"sql": "x", "tables": "other"}}, "no set of tables 'other'"),
        ({"maintenance": {**DROP, "by": "colour"}}, "unknown factor 'colour'"),
        ({"maintenance": {"tables": "dropped"}}, "sql"),
        ({"kind": "warm_tables", "maintenance": {"sql": "x"}}, "belongs to a phase"),
        ({"tables": "dropped"}, "'tables' belongs to a phase of kind 'sql'"),
        ({}, "no phase has maintenance"),
    ],
)
def test_maintenance_that_nothing_can_run_is_refused(changes: dict[str, Any], message: str) -> None:
    drop_table = workloads.load("drop-table")
    phases = [*drop_table["phases"][:-1], {"name": "measure", "kind": "drive", **changes}]
    with pytest.raises(ValidationError, match=message):
        workloads.parse_workload({**drop_table, "phases": phases})


def test_phases_without_sql_have_no_statements() -> None:
    workload = workloads.parse_workload(workloads.load("load-data"))
    assert workload.phases[1].statements({}, {}) == ()


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ValidationError) as raised:
        workloads.parse_workload(definition(version="1", colour="red", roles=[]))
    assert {mistake.where for mistake in raised.value.diagnostics} == {"version", "colour", "roles"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": {"engine": {"default": "InnoDB"}}}, "either free or has choices"),
        ({"factors": {"engine": {"default": "A", "choices": ["B"]}}}, "not among the choices"),
        ({"factors": {"engine": {"default": "a b", "free": True}}}, "'a b' is not a letter"),
        ({"phases": [{"name": "a", "kind": "sql"}]}, "phases of kind 'sql'"),
        ({"phases": [{"name": "a", "kind": "sql", "sql": "{colour}"}]}, "unknown {colour}"),
        ({"phases": [{"name": "a", "kind": "sql", "sql": {"x": "y"}}]}, "exactly when 'by'"),
        ({"phases": [{"name": "a", "kind": "sql", "by": "engine", "sql": {"x": "y"}}]}, "default"),
        ({"metrics": {}}, "exactly one metric is primary"),
        (
            {
                "metrics": {
                    "x": {
                        "title": "x",
                        "unit": "s",
                        "direction": "lower",
                        "numerator": ["lod_duration_s"],
                        "primary": True,
                    }
                }
            },
            "no phase measures lod_duration_s",
        ),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        workloads.parse_workload(definition(**changes))


def _with_table(**changes: Any) -> dict[str, Any]:
    return {"tables": {"sbtest": {**driving()["tables"]["sbtest"], **changes}}}


_ID = {"name": "id", "kind": "sequence"}


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        ({"roles": ["srver"]}, "roles", 'write ["server"] or ["source", "replica"]'),
        ({"name": " "}, "name", "blank"),
        ({"default_test": "pont"}, "default_test", "expected one of point, pair, repeat, one"),
        ({"default_test": None}, "default_test", "is missing"),
        ({"statements": {"select": {"sql": " "}}}, "statements.select.sql", "empty"),
        (
            {"statements": {"select": {"by": "engine", "sql": {"default": "-- none"}}}},
            "statements.select.sql.default",
            "empty",
        ),
        (_with_table(create="CREATE TABLE (id INT)"), "tables.sbtest.create", "{table}"),
        (
            _with_table(create="CREATE TABLE {table} (id2 INT)", columns=[_ID]),
            "tables.sbtest.columns[0].name",
            "no column 'id'",
        ),
        (
            {
                "phases": [
                    {"name": "a", "kind": "sql", "sql": ["SELECT 1", 3]},
                    {"name": "run", "kind": "drive"},
                ]
            },
            "phases[0].sql[1]",
            "valid string",
        ),
    ],
)
def test_only_mistake_of_a_workload_is_at_its_place(
    changes: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        workloads.parse_workload(driving(**changes))
    [found] = refused.value.diagnostics
    assert found.where == where
    assert message in found.message


@pytest.mark.parametrize(
    "changes",
    [
        _with_table(create="CREATE TABLE {table} (`ID` INT)", columns=[_ID]),
        _with_table(create="CREATE TABLE sbtest{n} (id INT)", columns=[_ID]),
        _with_table(create="CREATE TABLE {table} LIKE d.other", columns=[_ID]),
        _with_table(create="CREATE TABLE {table} ({range_size})", columns=[_ID]),
        _with_table(create="CREATE TABLE {table} (a INT)", columns=[{**_ID, "hidden": True}]),
    ],
)
def test_tables_that_a_server_may_make_are_accepted(changes: dict[str, Any]) -> None:
    assert workloads.parse_workload(driving(**changes)).drives


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("integer", 0, "an integer from 1 to 9"),
        ("integer", 10, "an integer from 1 to 9"),
        ("integer", True, "an integer from 1 to 9"),
        ("integer", 2.0, "an integer from 1 to 9"),
        ("number", "2", "a number from 1 to 9"),
        ("integer", 9, None),
        ("number", 1.5, None),
    ],
)
def test_invalid_parameter_is_refused_with_its_type(
    kind: Any, value: object, wanted: str | None
) -> None:
    parameter = workloads.Parameter(kind=kind, minimum=1, maximum=9)
    assert parameter.diagnose(value) == wanted


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_is_finite(value: float) -> None:
    assert workloads.Parameter(kind="number").diagnose(value) == "a number"


def test_data_and_table_sizes() -> None:
    workload = workloads.parse_workload(workloads.load("load-data"))
    assert workload.data_bytes({"rows": 1000}) == 79_000
    assert workload.data is not None
    assert workload.data.table_bytes(1000, "InnoDB") == 125_000
    assert workload.data.table_bytes(1000, "innodb") == 125_000
    assert workload.data.table_bytes(1000, "Unheard") == 130_000


@pytest.mark.parametrize("population", ["2011", "newer"])
def test_the_rows_of_parents_are_estimated(population: str) -> None:
    linkbench = workloads.parse_workload(workloads.load("linkbench"))
    volume = linkbench.volume({"nodes": 1_000_000, "population": population})
    assert volume.tables == 3
    assert volume.rows == 1_000_000 + 4_400_000 + 800_000
    assert 450e6 < volume.data_bytes < 900e6
