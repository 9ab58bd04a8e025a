"""Test workload definitions: the shipped ones are valid, and all errors in one are reported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import workloads
from millrace.errors import UserError, ValidationError
from millrace.workloads.tables import evaluated
from tests.support.small_workload import driving

SECONDS = {"title": "x", "unit": "s", "direction": "lower", "primary": True}


def shipped(name: str) -> workloads.Workload:
    return workloads.parse_workload(workloads.load(name))


def definition(**changes: Any) -> dict[str, Any]:
    return {**workloads.load("load-data"), **changes}


@pytest.mark.parametrize("name", workloads.names())
def test_every_shipped_workload_is_right_and_named_like_its_file(name: str) -> None:
    assert shipped(name).name == name


def test_an_unknown_workload_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'load-data'"):
        workloads.load("load-dta")


def test_statements_are_chosen_by_level_and_filled_in() -> None:
    workload = shipped("load-data")
    create, finish = workload.phases[0], workload.phases[2]
    assert create.statements({"engine": "MyISAM", "table_options": "X=1"}, {})[0].endswith(
        "ENGINE=MyISAM X=1"
    )
    assert finish.statements({"engine": "InnoDB"}, {}) == ("COMMIT",)
    assert finish.statements({"engine": "MyISAM"}, {}) == ("FLUSH TABLES",)
    assert finish.statements({"engine": "RocksDB"}, {}) == ("COMMIT", "FLUSH TABLES")
    assert finish.statements({"engine": "myisam"}, {}) == ("FLUSH TABLES",)
    assert workload.phases[1].statements({}, {}) == ()  # it has no sql


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
    tables = {"dropped": shipped("drop-table").tables["dropped"]}
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
        ({"maintenance": {"sql": "x", "tables": "other"}}, "unknown set of tables 'other'"),
        ({"maintenance": {**DROP, "by": "colour"}}, "unknown factor 'colour'"),
        ({"maintenance": {"tables": "dropped"}}, "sql"),
        ({"kind": "warm_tables", "maintenance": {"sql": "x"}}, "is allowed only in a phase"),
        ({"tables": "dropped"}, "'tables' is allowed only in a phase of kind 'sql'"),
        ({}, "no phase has maintenance"),
    ],
)
def test_maintenance_that_nothing_can_run_is_refused(changes: dict[str, Any], message: str) -> None:
    drop_table = workloads.load("drop-table")
    phases = [*drop_table["phases"][:-1], {"name": "measure", "kind": "drive", **changes}]
    with pytest.raises(ValidationError, match=message):
        workloads.parse_workload({**drop_table, "phases": phases})


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ValidationError) as raised:
        workloads.parse_workload(definition(version="1", colour="red", roles=[]))
    assert {mistake.where for mistake in raised.value.diagnostics} == {"version", "colour", "roles"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": {"engine": {"default": "InnoDB"}}}, "either choices or free"),
        ({"factors": {"engine": {"default": "A", "choices": ["B"]}}}, "not among the choices"),
        ({"factors": {"engine": {"default": "a b", "free": True}}}, "'a b' is not a letter"),
        ({"phases": [{"name": "a", "kind": "sql"}]}, "required in a phase of kind 'sql'"),
        ({"phases": [{"name": "a", "kind": "sql", "sql": "{colour}"}]}, "unknown {colour}"),
        ({"phases": [{"name": "a", "kind": "sql", "sql": {"x": "y"}}]}, "if 'by' names a factor"),
        ({"phases": [{"name": "a", "kind": "sql", "by": "engine", "sql": {"x": "y"}}]}, "default"),
        ({"metrics": {}}, "exactly one metric must be primary"),
        (
            {"metrics": {"x": {**SECONDS, "numerator": ["lod_duration_s"]}}},
            "lod_.* is not measured by a phase",
        ),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        workloads.parse_workload(definition(**changes))


@pytest.mark.parametrize(
    ("changes", "where", "near"),
    [
        ({"titel": "x"}, "titel", "title"),
        (
            {"phases": [{"name": "a", "kind": "sql", "sql": "SELECT 1", "maintenence": {}}]},
            "phases[0].maintenence",
            "maintenance",
        ),
        ({"data": {**definition()["data"], "colour": "red"}}, "data.colour", None),
    ],
)
def test_a_key_that_no_workload_has_is_refused_with_the_nearest(
    changes: dict[str, Any], where: str, near: str | None
) -> None:
    with pytest.raises(ValidationError) as raised:
        workloads.parse_workload(definition(**changes))
    (mistake,) = [each for each in raised.value.diagnostics if each.where == where]
    assert (mistake.message, mistake.nearest) == ("unknown key", near)
    assert (mistake.expected or "").startswith("one of ")


def _with_table(**changes: Any) -> dict[str, Any]:
    return {"tables": {"sbtest": {**driving()["tables"]["sbtest"], **changes}}}


_ID = {"name": "id", "kind": "sequence"}


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        ({"roles": ["srver"]}, "roles", 'must be ["server"] or ["source", "replica"]'),
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
            "column 'id' is missing in create",
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


def test_invalid_parameter_is_refused_with_its_type() -> None:
    integer = workloads.Parameter(kind="integer", minimum=1, maximum=9)
    for wrong in (0, 10, True, 2.0):
        assert integer.diagnose(wrong) == "an integer from 1 to 9"
    number = workloads.Parameter(kind="number", minimum=1, maximum=9)
    assert number.diagnose("2") == "a number from 1 to 9"
    assert (integer.diagnose(9), number.diagnose(1.5)) == (None, None)
    for endless in (float("nan"), float("inf")):
        assert workloads.Parameter(kind="number").diagnose(endless) == "a number"


def test_data_and_table_sizes() -> None:
    workload = shipped("load-data")
    assert workload.data_bytes({"rows": 1000}) == 79_000
    assert workload.data is not None
    assert workload.data.table_bytes(1000, "InnoDB") == 125_000
    assert workload.data.table_bytes(1000, "innodb") == 125_000
    assert workload.data.table_bytes(1000, "Unheard") == 130_000


@pytest.mark.parametrize("population", ["2011", "newer"])
def test_the_rows_of_parents_are_estimated(population: str) -> None:
    linkbench = shipped("linkbench")
    volume = linkbench.volume({"nodes": 1_000_000, "population": population})
    assert volume.tables == 3
    assert volume.rows == 1_000_000 + 4_400_000 + 800_000
    assert 450e6 < volume.data_bytes < 900e6


def test_what_its_phases_imply_is_part_of_the_definition() -> None:
    definition = driving()
    workload = workloads.parse_workload(definition)
    assert workload.drives
    assert workload.factors["test"].choices == ["point", "pair", "repeat", "one"]
    assert workload.factors["test"].default == "point"
    assert {"clients", "protocol", "transport", "tls", "rate", "arrivals"} < workload.factors.keys()
    parameters = {"time_s", "operations", "cache_mode", "settle_s", "data_seed"}
    assert parameters < workload.parameters.keys()
    assert workloads.completed(definition) == definition
    load_data = workloads.load("load-data")
    assert workloads.completed(load_data) == load_data
    assert "clients" not in load_data["factors"]


def test_tables_that_take_options_can_be_compressed() -> None:
    assert "compression" not in driving()["factors"]
    plain = {"t": {"name": "t", "rows": 1, "create": "CREATE TABLE {table} (id INT)"}}
    tables = {"t": {**plain["t"], "create": "CREATE TABLE {table} (id INT) {table_options}"}}
    made = workloads.completed({**driving(), "tables": tables})
    assert made["factors"]["compression"]["default"] == "none"
    phases = [{"name": "create", "kind": "sql", "sql": "CREATE TABLE t (id INT) {table_options}"}]
    assert "compression" in workloads.completed({"phases": phases})["factors"]
    of_one_server = [
        each for each in map(workloads.load, workloads.names()) if len(each["roles"]) == 1
    ]
    assert all("compression" in each["factors"] for each in of_one_server)


def test_driven_clients_have_metrics_without_saying_so() -> None:
    bare = {key: value for key, value in driving().items() if key != "metrics"}
    renamed = [*bare["phases"][:-1], {"name": "drive", "kind": "drive"}]
    workload = workloads.parse_workload(workloads.completed({**bare, "phases": renamed}))
    by_default = ["throughput", "qps", "p50", "p95", "p99", "server_cpu", "client_cpu"]
    assert list(workload.metrics) == by_default
    assert [name for name, each in workload.metrics.items() if each.primary] == ["throughput"]
    assert workload.metrics["throughput"].denominator == ["drive_duration_s"]

    own = {
        "rows": {
            "title": "rows/s", "unit": "rows/s", "direction": "higher", "primary": True,
            "numerator": ["rows_affected"], "denominator": ["measure_duration_s"],
        },
        "p99": {**PERCENTILE, "title": "its own"},
    }  # fmt: skip
    workload = workloads.parse_workload(workloads.completed({**bare, "metrics": own}))
    assert [name for name, each in workload.metrics.items() if each.primary] == ["rows"]
    assert list(workload.metrics) == [*by_default, "rows"]
    assert workload.metrics["p99"].title == "its own"


def test_loading_alone_implies_no_clients() -> None:
    metrics = {
        "rate": {
            "title": "rows/s", "unit": "rows/s", "direction": "higher", "numerator": ["rows"],
            "denominator": ["load_duration_s"], "primary": True,
        }
    }  # fmt: skip
    bare = {key: value for key, value in driving().items() if key not in ("tests", "default_test")}
    loading = workloads.completed(
        {
            **bare,
            "factors": {"load_method": {"default": "local", "choices": ["local", "multi_row"]}},
            "parameters": {"table_size": {"kind": "integer"}, "tables": {"kind": "integer"}},
            "phases": [{"name": "load", "kind": "load_tables"}],
            "metrics": metrics,
        }
    )
    workload = workloads.parse_workload(loading)
    assert not workload.drives
    assert workload.factors.keys() == {"transport", "tls", "load_method"}
    # A setting that the workload varies itself is not a parameter of all trials.
    assert "load_method" not in workload.parameters
    assert "data_seed" in workload.parameters


def test_a_workload_keeps_what_it_defines_itself() -> None:
    own = {"kind": "number", "default": 60, "minimum": 1}
    definition = driving(parameters={**driving()["parameters"], "time_s": own})
    assert workloads.parse_workload(definition).parameters["time_s"].default == 60


PERCENTILE = driving()["metrics"]["p99"]
CHECK = {"name": "sums", "title": "sums are equal", "sql": "SELECT 1 FROM sbtest1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": {}}, "either data or tables"),
        ({"data": workloads.load("load-data")["data"]}, "either data or tables"),
        ({"tests": {}}, "tests need a phase of kind 'drive'"),
        ({"default_test": "pont"}, "default_test: unknown test 'pont'; expected one of point,"),
        (
            {"tests": {"point": {"title": "x", "values": {"y": 1}}}},
            "unknown factor or parameter 'y'",
        ),
        ({"tests": {"point": {}}}, "tests.point.title: Field required"),
        (
            {"phases": [*driving()["phases"], {"name": "more", "kind": "drive"}]},
            "only one phase of kind 'drive'",
        ),
        ({"phases": [{"name": "load", "kind": "load_data"}]}, "the workload has no data"),
        ({"phases": [{"name": "load", "kind": "lod_tables"}]}, "Input should be 'sql'"),
        ({"metrics": {"x": {**PERCENTILE, "of": None}}}, "needs 'of' and 'time'"),
        ({"metrics": {"x": {**PERCENTILE, "numerator": ["y"]}}}, "a numerator or a percentile"),
        ({"metrics": {"x": {**PERCENTILE, "denominator": ["y"]}}}, "must not have a denominator"),
        ({"metrics": {"x": {**PERCENTILE, "unit": "ms"}}}, "needs unit ="),
        ({"metrics": {"x": {**PERCENTILE, "percentile": 0}}}, "greater than 0"),
        (
            {"parameters": {**driving()["parameters"], "clients": {"kind": "integer"}}},
            "clients is also a factor",
        ),
        ({"factors": {"x": {"default": 5, "free": True, "minimum": 9}}}, "an integer from 9"),
        ({"factors": {"x": {"default": "a", "free": True, "minimum": 9}}}, "only numbers have"),
        ({"parameters": {"x": {"kind": "integer", "choices": ["a"]}}}, "only a parameter of kind"),
        ({"parameters": {"x": {"kind": "cpus", "default": "3-1"}}}, "is not numbers of CPUs"),
        ({"parameters": {"x": {"kind": "text", "default": "c", "choices": ["a"]}}}, "one of a"),
        ({"checks": [{**CHECK, "sql": "SELECT {row}"}]}, "checks[0].sql: unknown {row}"),
        ({"checks": [CHECK, CHECK]}, "two checks have the name 'sums'"),
        (
            {"tests": {"point": {"title": "x", "background_clients": [{"test": "pair"}]}}},
            "tests.point.background_clients: unknown test 'pair'",
        ),
        (
            {"metrics": {**driving()["metrics"], "theirs": {**PERCENTILE, "of": "background"}}},
            "metrics.theirs: no test has background clients",
        ),
        ({"sequence": ["point", "other"]}, "sequence: unknown test 'other'"),
        ({"sequence": ["point", "one", "point"]}, "sequence: a test is listed twice"),
        ({"checks": [{**CHECK, "name": "Sums"}]}, "checks[0].name"),
    ],
)
def test_a_definition_of_clients_that_contradicts_itself_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        workloads.parse_workload({**driving(), **changes})
    assert message in str(refused.value)


def test_values_come_from_the_experiment_the_test_or_the_defaults() -> None:
    workload = workloads.parse_workload(driving())
    assert workload.test_values() == {"range_size"}
    assert workload.values({})["range_size"] == 100
    assert workload.values({"test": "one"})["range_size"] == 7
    assert workload.values({"test": "one", "range_size": 1})["range_size"] == 1


def test_values_of_tests_may_be_arithmetic_and_tests_may_have_background_clients() -> None:
    definition = driving()
    definition["tests"]["one"] |= {
        "values": {"operations": "{table_size} * {clients} / 10"},
        "background_clients": [
            {"test": "pair", "rate": "{clients} * 5"},
            {"test": "point", "clients": 3},
        ],
    }
    workload = workloads.parse_workload(definition)
    assert workload.values({"test": "one", "clients": 4})["operations"] == 400
    assert workload.values({"test": "one", "operations": 7})["operations"] == 7
    assert workload.background_client_count(workload.values({"test": "one", "clients": 4})) == 7
    assert workload.background_client_count(workload.values({"test": "pair"})) == 0


def test_the_volume_of_tables() -> None:
    workload = workloads.parse_workload(driving())
    volume = workload.volume({"tables": 3, "table_size": 1_000})
    assert volume.rows == 3_000
    assert volume.tables == 3
    # id and k with 4 characters, c with the 120 of its CHAR, and a separator after each.
    assert volume.data_bytes == 3_000 * (5 + 5 + 121)
    assert volume.index_entries == 3_000
    assert workload.data_bytes({"tables": 3, "table_size": 1_000}) == volume.data_bytes
    definition = driving()
    definition["tables"]["sbtest"]["columns"].append(
        {"name": "row", "kind": "sequence", "hidden": True}
    )
    same = workloads.parse_workload(definition)
    assert same.volume({"tables": 3, "table_size": 1_000}) == volume


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(0, 10**6))
def test_arithmetic_over_values(size: int, divisor: int, more: int) -> None:
    values = {"size": size, "divisor": divisor, "more": more}
    assert evaluated("{size}/{divisor}+{more}", values) == size // divisor + more
    assert evaluated("({size}+{more})*2-1", values) == (size + more) * 2 - 1
    assert evaluated(f"-{more}", values) == -more
    assert evaluated(size, values) == size


@pytest.mark.parametrize(
    "text", ["", "x", "{size}{size}", "__import__('os')", "1/0", "2**9", "'a'"]
)
def test_nothing_but_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match="is not an integer expression"):
        evaluated(text, {"size": 5})


@pytest.mark.parametrize(
    ("factor", "level", "wanted"),
    [
        ("clients", 8, None),
        ("clients", 0, "an integer from 1 to 100000"),
        ("clients", True, "an integer from 1 to 100000"),
        ("clients", 8.0, "an integer from 1 to 100000"),
        ("rate", 8.5, None),
        ("rate", float("inf"), "a number from 0"),
        ("tls", True, None),
        ("tls", 1, "true or false"),
        ("protocol", "text", None),
        ("protocol", "Text", "one of prepared, text"),
        ("engine", "MyISAM", None),
        ("engine", 'x"', "a letter, then letters, digits and _, at most 64 in all"),
    ],
)
def test_invalid_factor_is_refused_with_its_type(
    factor: str, level: object, wanted: str | None
) -> None:
    assert workloads.parse_workload(driving()).factors[factor].diagnose(level) == wanted
