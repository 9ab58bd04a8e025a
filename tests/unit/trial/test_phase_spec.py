"""Test converting a workload's phases to the load generator's spec, with their limits."""

from pathlib import Path
from typing import Any

import pytest

from millrace import databases, workloads
from millrace.loadgen import spec
from millrace.loadgen.spec import Connection, GeneratedSource, LoadData, ServerFile, Statement
from millrace.trial import phase_spec, time_limits
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.small_workload import driving

LOAD_DATA = workloads.load("load-data")
DIALECT = databases.get("mysql").load_dialect
SOMEWHERE = Connection(user="root", password="secret", socket=Path("/somewhere"))


def work(**chosen: Any) -> ResolvedWorkload:
    return ResolvedWorkload(LOAD_DATA, {"rows": 1_000, "data_seed": 7, **chosen})


def made(given: ResolvedWorkload, data_file: Path | None = None) -> spec.LoadSpec:
    return phase_spec.load_spec(given.measuring_phases, given, DIALECT, SOMEWHERE, data_file)


def test_the_spec_at_each_load_mode() -> None:
    local = made(work())
    assert [each.name for each in local.phases] == ["create", "load", "finish", "count", "verify"]
    load = local.phases[1]
    assert isinstance(load, LoadData)
    assert load.source == GeneratedSource("nodes", 1_000, 7)
    from_file = made(work(load_mode="server_file"), Path("/d/nodes"))
    load = from_file.phases[1]
    assert isinstance(load, LoadData)
    assert load.source == ServerFile(Path("/d/nodes"))


def test_tests_that_age_tables_are_a_phase_each() -> None:
    aged = driving(sequence=["pair", "one", "point"])
    tests = {**aged["tests"], "one": {**aged["tests"]["one"], "values": {"operations": 70}}}
    given = ResolvedWorkload({**aged, "tests": tests}, {"test": "point", "time_s": 5, "clients": 3})
    pair, one = phase_spec.ageing_spec(given.prior, DIALECT, SOMEWHERE).phases
    assert isinstance(pair, spec.Drive)
    assert isinstance(one, spec.Drive)
    assert (pair.name, pair.test, pair.clients, pair.time_s) == ("pair", "pair", 3, 5)
    assert (one.name, one.test, one.transactions, one.time_s) == ("one", "one", 70, None)
    assert (pair.primary, one.primary) == (False, True)
    assert time_limits.ageing_limit_s(given.prior) == pair.limit_s + one.limit_s


@pytest.mark.parametrize(
    ("engine", "finish"),
    [
        ("InnoDB", ("COMMIT",)),
        ("MyISAM", ("FLUSH TABLES",)),
        ("RocksDB", ("COMMIT", "FLUSH TABLES")),
    ],
)
def test_the_finish_makes_the_engine_durable(engine: str, finish: tuple[str, ...]) -> None:
    create, _, last = made(work(engine=engine)).phases[:3]
    assert isinstance(create, Statement)
    assert create.sql[0].rstrip().endswith(f"ENGINE={engine}")
    assert isinstance(last, Statement)
    assert tuple(last.sql) == finish


def test_the_checksum_compares_text_as_bytes() -> None:
    data = workloads.parse_workload(LOAD_DATA).data
    assert data is not None
    assert DIALECT.checksum(data.table, data.columns, data.binary_columns) == (
        "SELECT count(*), sum(crc32(concat_ws('\\t', id, lat, lon, version, timestamp, changeset, "
        "uid, CAST(user AS BINARY)))) FROM nodes"
    )


def test_the_session_is_utc() -> None:
    assert made(work()).session == ("SET time_zone = '+00:00'",)


def test_maintenance_runs_in_the_middle_of_the_clients_time() -> None:
    given = ResolvedWorkload(
        workloads.load("drop-table"), {"dropped_tables": 2, "time_s": 6, "drop": "tables"}
    )
    (phase,) = phase_spec.load_spec(given.measuring_phases, given, DIALECT, SOMEWHERE).phases
    assert isinstance(phase, spec.Drive)
    assert phase.maintenance == spec.Maintenance(
        3.0, ("DROP TABLE dropped1", "DROP TABLE dropped2")
    )
    assert phase.limit_s > time_limits.phase_limit_s(
        driven(time_s=6).measuring_phases[0], driven(time_s=6)
    )


def limit_s(given: ResolvedWorkload) -> float:
    return time_limits.limit_s(given.checked.phases, given)


def test_limits_grow_with_the_rows() -> None:
    small, large = work(), work(rows=46_741_126)
    assert limit_s(small) < limit_s(large)
    assert limit_s(large) == pytest.approx(sum(each.limit_s for each in made(large).phases))
    assert made(small).tables is None


def driven(**chosen: Any) -> ResolvedWorkload:
    return ResolvedWorkload(driving(), chosen)


def drive(**chosen: Any) -> spec.Drive:
    given = driven(**chosen)
    [phase] = phase_spec.load_spec(given.measuring_phases, given, DIALECT, SOMEWHERE).phases
    assert isinstance(phase, spec.Drive)
    return phase


def test_the_phases_of_a_workload_with_clients_are_made_warmed_and_measured_apart() -> None:
    given = driven()
    parts = (given.making_phases, given.warming_phases, given.measuring_phases)
    assert [[phase.name for phase in part] for part in parts] == [
        ["load", "verify"],
        ["warm"],
        ["measure"],
    ]
    making = phase_spec.load_spec(given.making_phases, given, DIALECT, SOMEWHERE)
    assert [type(phase) for phase in making.phases] == [spec.LoadTables, spec.VerifyTables]
    assert making.tables is not None
    tests = making.tables.workload["tests"]
    assert isinstance(tests, dict)
    assert tests.keys() == {"point", "pair", "repeat", "one"}
    assert making.tables.seed == 1
    only_loading = work()
    assert (only_loading.making_phases, only_loading.warming_phases) == ((), ())
    assert only_loading.measuring_phases == tuple(only_loading.checked.phases)


def test_clients_are_driven_as_the_levels_say() -> None:
    assert drive() == spec.Drive(
        "measure", "point", 1, time_limits.limit_s(driven().measuring_phases, driven()),
        time_s=30.0, warmup_s=5.0, retry=("1213", "1205", "1020"), linger_s=0.3,
    )  # fmt: skip
    steady = drive(warmup="steady", warmup_s=1)
    assert (steady.until_steady, steady.warmup_s) == (True, 300.0)
    assert steady.limit_s > 300 + 30
    open_loop = drive(clients=8, protocol="text", rate=1000, arrivals="constant", max_lateness_s=2)
    assert (open_loop.clients, open_loop.protocol) == (8, "text")
    assert open_loop.pacing == spec.Open(1000.0, "constant", 2.0)
    assert drive(rate=5, max_lateness_s=0).pacing == spec.Open(5.0, "poisson", None)
    equal_work = drive(operations=100, client_cpus="0,2-3", threads=2)
    assert (equal_work.time_s, equal_work.transactions) == (None, 100)
    assert (equal_work.cpus, equal_work.threads) == ((0, 2, 3), 2)


def test_experiment_outranks_test_and_test_outranks_defaults() -> None:
    assert drive(test="one").time_s == 30.0
    assert driven(test="one").values["range_size"] == 7
    assert driven(test="one", range_size=9).values["range_size"] == 9
    assert driven(test="point").values["range_size"] == 100
    # Tables do not depend on the test, so that all tests share one data set.
    assert driven(test="one").table_values["range_size"] == 100
    tables = driven(test="one", table_size=5).tables
    assert tables is not None
    assert tables.values == {"test": "one", "table_size": 5, "table_options": ""}
    assert tables.defaults["range_size"] == 100


@pytest.mark.parametrize(
    ("chosen", "restorable"),
    [
        ({}, True),
        ({"snapshot": "off"}, False),
        ({"engine": "MEMORY"}, False),
        ({"engine": "Heap"}, False),
        ({"engine": "MyISAM"}, True),
    ],
)
def test_what_a_restart_would_lose_is_never_restored(
    chosen: dict[str, Any], *, restorable: bool
) -> None:
    assert driven(**chosen).is_restorable is restorable


@pytest.mark.parametrize(
    ("method", "locks"), [("local", False), ("multi_row", True), ("single_row", True)]
)
def test_only_inserts_lock_tables(method: str, *, locks: bool) -> None:
    given = ResolvedWorkload(
        workloads.load("insert-methods"), {"load_method": method, "lock_tables": True, "rows": 5}
    )
    load, verify = made(given).phases
    assert isinstance(load, spec.LoadTables)
    assert (load.method, load.lock_tables) == (method, locks)
    assert isinstance(verify, spec.VerifyTables)


def test_connections_of_loads_that_are_measured_stay_until_threads_are_read() -> None:
    measured, *_ = made(ResolvedWorkload(workloads.load("insert-methods"), {"rows": 5})).phases
    made_before, *_ = phase_spec.load_spec(
        driven().making_phases, driven(), DIALECT, SOMEWHERE
    ).phases
    assert isinstance(measured, spec.LoadTables)
    assert isinstance(made_before, spec.LoadTables)
    assert measured.linger_s > made_before.linger_s == 0


def test_single_row_loading_gets_the_time_it_takes() -> None:
    at_once, one_by_one = driven(), driven(load_method="single_row")
    assert time_limits.limit_s(one_by_one.making_phases, one_by_one) > time_limits.limit_s(
        at_once.making_phases, at_once
    )


def test_driving_gets_its_time_and_more() -> None:
    for chosen, least_s in (
        ({"time_s": 300}, 300),
        ({"time_s": 300, "warmup_s": 600}, 900),
        ({"operations": 1_000_000}, 10_000),
        ({"operations": 1_000, "rate": 0.1}, 10_000),
        ({"clients": 10_000}, 60),
    ):
        given = driven(**chosen)
        assert time_limits.limit_s(given.measuring_phases, given) > least_s
