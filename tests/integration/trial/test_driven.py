"""Test trials with driven clients on real servers: snapshots, counters, stored results."""

import contextlib
import json
import os
import shutil
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import paths
from millrace.model.events import IntervalEnded, TrialEvent
from millrace.model.servers import AttachedServer, FittedOptions, Option
from millrace.servers import snapshots
from millrace.servers.instances import instance_paths, lifecycle, ownership
from millrace.servers.snapshots import Snapshot, data_files, manifest
from millrace.store import observations
from millrace.store.records import AttemptResult
from millrace.trial import thread_placement
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.execute import execute_trial
from millrace.trial.load_run import Emit
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import InstanceOf, ServerOf
from tests.servers import quick_options
from tests.support.small_workload import driving, naps

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("own_snapshots", "initialised_once", "settled_soon"),
]

SERVERS = ["mysql-5.6.24", "mysql-8.0.12", "mariadb-10.11.19"]
# A module's tests of one server follow each other, and find its snapshot.
ALL_SERVERS = pytest.mark.parametrize("name", [*SERVERS, "mysql-5.5.34"], scope="module")
QUICK = {"table_size": 1_000, "time_s": 0.3, "warmup_s": 0.1}


def trial(
    server_of: ServerOf,
    name: str,
    options: FittedOptions | None = None,
    emit: Emit = lambda _event: None,
    cpu_idle: CpuIdleSettings | None = None,
    collectors: tuple[str, ...] = (),
    stops_cleanly: bool = False,
    definition: dict[str, Any] | None = None,
    **chosen: Any,
) -> AttemptResult:
    """Run a moment of reads; only a test of what follows waits for a clean stop."""
    given = TrialSpec(
        name="test/1",
        servers=(ServerSpec(server_of(name), options or quick_options(name)),),
        workload=ResolvedWorkload(definition or driving(), {**QUICK, **chosen}),
        cpu_idle=cpu_idle,
        collectors=collectors,
        stops_cleanly=stops_cleanly,
    )
    return execute_trial(given, emit)


def measured(result: AttemptResult) -> dict[str, float]:
    return {each.name: each.value for each in result.measurements}


def step_names(result: AttemptResult) -> list[str]:
    return [step.name for step in result.steps]


def series(result: AttemptResult) -> list[dict[str, Any]]:
    [content] = [content for kind, _, content in result.artefacts if kind == "series"]
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("name", SERVERS, scope="module")
def test_a_snapshot_is_made_once_and_restored(server_of: ServerOf, name: str) -> None:
    first = trial(server_of, name, stops_cleanly=True, clients=2)
    assert first.outcome == "finished", first.reason
    driven = [
        "restore", "start", "record", "check_tables", "warm", "fits", "settle", "measure",
    ]  # fmt: skip
    assert step_names(first) == [
        "prepare", "initialise", "start", "database", "table_format", "load", "verify", "analyse",
        "keep", "stop", "save",
        *driven,
        "stop", "sizes",
    ]  # fmt: skip
    # Another test on the same data, over TCP.
    again = trial(
        server_of, name, stops_cleanly=True, clients=2, test="pair", transport="tcp",
        protocol="text",
    )  # fmt: skip
    assert again.outcome == "finished", again.reason
    # It writes, so the rows are counted.
    assert step_names(again) == ["prepare", *driven, "rows", "stop", "sizes"]
    assert measured(again)["snapshot_saved_s"] > 0
    assert "snapshot_saved_s" not in measured(first)

    # No other process can take the port of a server that needs none.
    by_tcp = [result.instances[0].effective["skip_networking"] for result in (first, again)]
    assert by_tcp == ["ON", "OFF"]

    for result in (first, again):
        found = measured(result)
        [transactions] = [each for each in result.histograms if each.of == "transaction"]
        assert found["transactions"] == transactions.count > 0
        assert found["errors"] == 0
        assert found["server_user_s"] + found["server_system_s"] > 0
        assert found["buffer_pool_read_requests"] >= found["statements"] / 4
        assert found["load_generator_user_s"] + found["load_generator_system_s"] > 0
        assert found["mean_gap_s"] > 0
        assert found["table_allocated_bytes"] > 0
        marks = [event["mark"] for event in series(result) if event["type"] == "mark"]
        assert marks == ["connected", "warmup_started", "measure_started", "measure_ended"]
    # BEGIN, SELECT, UPDATE, COMMIT; one row each.
    found = measured(again)
    assert found["statements"] == 4 * found["transactions"]
    assert found["rows_read"] == found["rows_affected"] == found["transactions"]


def test_a_port_that_somebody_takes_is_no_failure_of_the_server(
    server_of: ServerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        monkeypatch.setattr(instance_paths, "reserved_port", lambda: contextlib.nullcontext(port))
        by_socket = trial(server_of, "mysql-5.6.24", clients=2)
        by_tcp = trial(server_of, "mysql-5.6.24", clients=2, transport="tcp")
    assert by_socket.outcome == "finished", by_socket.reason
    assert by_tcp.is_transient
    assert f"another process of this host listens at the port {port}" in (by_tcp.reason or "")


@pytest.mark.quiet  # samples of a busy host may miss that a thread waits for its client
def test_clients_show_their_statements_where_somebody_looks(server_of: ServerOf) -> None:
    seen = trial(
        server_of, "mysql-5.6.24", clients=2, test="pair", time_s=1.0, collectors=("states",)
    )
    assert seen.outcome == "finished", seen.reason
    observed = seen.observations["server"]
    statements = observed["states"]["statements"]
    assert statements["threads"] == 2
    assert observations.readable(observed) == observed
    assert {state["statement"] for state in statements["states"]} >= {"select", "update", "COMMIT"}
    # Threads of a pool serve any client.
    options = (Option("thread_handling", "pool-of-threads", False, "pool"),)
    pooled = trial(
        server_of, "mariadb-10.11.19", FittedOptions("pool", options), clients=2, test="pair",
        collectors=("states",),
    )  # fmt: skip
    assert pooled.outcome == "finished", pooled.reason
    observed = pooled.observations["server"]
    assert observed["states"]["statements"] is None
    lacks = [lack["what"] for lack in observed["missing"] if "statement" in lack["what"]]
    assert len(lacks) == 1
    assert "share a pool of threads" in lacks[0]


@pytest.mark.parametrize("chosen", [{"engine": "MEMORY"}, {"snapshot": "off"}])
def test_what_cannot_be_kept_is_loaded_by_each_trial(
    server_of: ServerOf, chosen: dict[str, Any]
) -> None:
    result = trial(
        server_of, "mysql-5.6.24", stops_cleanly=True, operations=500, clients=4, **chosen
    )
    assert result.outcome == "finished", result.reason
    steps = step_names(result)
    assert steps[steps.index("start"):] == [
        "start", "record", "database", "table_format", "load", "verify", "analyse", "warm",
        "fits", "settle", "measure", "stop", "sizes",
    ]  # fmt: skip
    assert measured(result)["transactions"] == 500
    if "snapshot" in chosen:
        assert steps[:2] == ["prepare", "initialise"]
        assert "snapshot_restore_s" not in measured(result)


def test_a_trial_whose_snapshot_cannot_be_kept_goes_on_with_what_it_loaded(
    server_of: ServerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(snapshots.LIMIT_VARIABLE, "10K")
    result = trial(server_of, "mysql-5.6.24", data_seed=2)
    assert result.outcome == "finished", result.reason
    assert {"save", "measure"} < set(step_names(result))
    assert "restore" not in step_names(result)
    [instance] = result.instances
    assert instance.facts.snapshot is None
    assert "exceeds the limit for snapshots" in str(instance.facts.snapshot_not_kept)
    assert measured(result)["transactions"] > 0


@pytest.mark.quiet
def test_a_statement_that_takes_longer_than_the_trial_is_counted(server_of: ServerOf) -> None:
    result = trial(server_of, SERVERS[0], definition=naps("0.8"))
    found = measured(result)
    assert (result.outcome, found["transactions"]) == ("finished", 1)
    assert found["measure_duration_s"] >= 0.8


def test_an_open_loop_is_counted(server_of: ServerOf) -> None:
    result = trial(server_of, "mysql-5.6.24", rate=200, arrivals="constant", clients=2, time_s=1.0)
    assert result.outcome == "finished", result.reason
    found = measured(result)
    assert found["scheduled"] == pytest.approx(200, abs=2)
    assert {each.kind for each in result.histograms} == {"service", "response"}


def test_a_run_that_is_to_be_io_bound_and_cannot_be_is_refused(server_of: ServerOf) -> None:
    result = trial(server_of, "mysql-5.6.24", cache_mode="io_bound")
    assert (result.outcome, result.failed_step) == ("failed", "fits")
    assert "must be I/O-bound" in (result.reason or "")
    assert "set innodb_buffer_pool_size lower" in (result.reason or "")


def test_a_run_that_is_to_be_cached_and_cannot_be_is_refused(server_of: ServerOf) -> None:
    small = FittedOptions("small", (Option("innodb_buffer_pool_size", "5M", False, "small"),))
    result = trial(server_of, "mysql-5.6.24", small, cache_mode="cached", table_size=20_000)
    assert (result.outcome, result.failed_step) == ("failed", "fits")
    assert "set innodb_buffer_pool_size higher" in (result.reason or "")


def test_a_cached_run_is_known_to_be_one(server_of: ServerOf) -> None:
    result = trial(server_of, "mysql-5.6.24", cache_mode="cached")
    assert result.outcome == "finished", result.reason
    [instance] = result.instances
    assert instance.facts.residency == "cached"
    assert instance.facts.unsettled == ()
    assert instance.facts.snapshot_restored_by in ("reflink", "copy")
    assert measured(result)["settled"] == 1
    assert instance.facts.host_time is not None
    assert instance.facts.host_time.measured_s > 0


def test_what_was_done_about_sleeping_cpus_is_recorded(server_of: ServerOf) -> None:
    awake = CpuIdleSettings(True, True, None, None, "they are to stay awake", 50.0, 5.0)
    for engine in ("InnoDB", "MEMORY"):
        result = trial(server_of, "mysql-5.6.24", cpu_idle=awake, engine=engine)
        assert result.outcome == "finished", result.reason
        fact = result.instances[0].facts.cpu_idle
        assert fact is not None
        assert fact.kept_awake_by is not None
        assert fact.kept_awake_by["pollers"] == len(os.sched_getaffinity(0))
        assert (fact.polled, fact.on_cpus, fact.reason) == (True, None, awake.reason)


@ALL_SERVERS
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing to share where one CPU is")
def test_the_only_client_shares_a_cpu_with_the_thread_that_serves_it(
    server_of: ServerOf, name: str
) -> None:
    *others, shared = sorted(os.sched_getaffinity(0))
    settings = CpuIdleSettings(False, False, None, shared, "they are to stay awake", 50.0, 15.0)
    seen: list[list[set[int]]] = []

    def look(event: TrialEvent) -> None:
        if isinstance(event, IntervalEnded) and event.kind == "drive":
            [record] = ownership.running()
            [process] = record.live_processes()
            tasks = Path(f"/proc/{process.pid}/task").iterdir()
            seen.append([os.sched_getaffinity(int(task.name)) for task in tasks])

    result = trial(server_of, name, emit=look, cpu_idle=settings, clients=1)
    assert result.outcome == "finished", result.reason
    fact = result.instances[0].facts.cpu_idle
    assert fact is not None
    assert fact.on_cpus == (shared,)
    assert seen
    for affinities in seen:
        assert affinities.count({shared}) == 1
        assert affinities.count(set(others)) == len(affinities) - 1


@ALL_SERVERS
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing to share where one CPU is")
def test_on_a_busy_host_the_thread_that_serves_is_seen_waiting(
    server_of: ServerOf, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_placement, "serving_threads", lambda *_: [])
    shared = max(os.sched_getaffinity(0))
    settings = CpuIdleSettings(False, False, None, shared, "they are to stay awake", 50.0, 15.0)
    result = trial(server_of, name, cpu_idle=settings, clients=1)
    assert result.outcome == "finished", result.reason


def test_errors_keep_their_codes_and_the_words_of_the_server(server_of: ServerOf) -> None:
    result = trial(server_of, "mysql-5.6.24", test="repeat", clients=2)
    assert result.outcome == "finished", result.reason
    found = measured(result)
    assert found["errors"] == found["errors_1062"] > 0
    figures = series(result)[-1]
    assert "Duplicate entry" in figures["error_messages"]["1062"]
    [statement] = figures["statements"]
    assert statement["errors"]["1062"] == found["errors_1062"]
    assert "encoded" not in statement["service"]


def test_what_clients_did_before_their_server_was_killed_is_kept(server_of: ServerOf) -> None:
    seconds: list[float] = []

    def kill(event: TrialEvent) -> None:
        if isinstance(event, IntervalEnded) and event.part == "measure":
            seconds.append(event.t_s)
            [record] = ownership.running()
            for process in record.live_processes():
                os.kill(process.pid, signal.SIGKILL)

    result = trial(server_of, "mysql-5.6.24", emit=kill, time_s=60.0)
    assert seconds
    assert (result.outcome, result.failed_step) == ("failed", "measure")
    assert "SIGKILL" in (result.reason or "")
    assert any(event["type"] == "interval" for event in series(result))
    assert "partial" in measured(result)
    assert any(each.count for each in result.histograms)


@pytest.mark.parametrize("transport", ["socket", "tcp"])
def test_encrypted_clients(server_of: ServerOf, transport: str) -> None:
    result = trial(server_of, "mysql-9.7.4", tls=True, transport=transport)
    assert result.outcome == "finished", result.reason
    assert measured(result)["bytes_received"] > 0
    plain = trial(server_of, "mysql-5.6.24", tls=True, transport=transport)
    assert (plain.outcome, plain.failed_step) == ("failed", "connect")
    assert "TLS" in (plain.reason or "")


def test_an_attached_server_gets_its_database_and_loses_it(
    server_of: ServerOf, instance_of: InstanceOf
) -> None:
    with instance_of("mariadb-10.11.19") as instance:
        dsn = f"mysql://{instance.user}:{instance.password}@/?socket={instance.socket}"
        attached = AttachedServer("theirs", "mariadb", dsn)
        given = TrialSpec(
            name="test/1",
            servers=(ServerSpec(attached, FittedOptions("default", ())),),
            workload=ResolvedWorkload(driving(), {**QUICK, "settle_s": 2}),
        )
        result = execute_trial(given, lambda _event: None)
        assert result.outcome == "finished", result.reason
        assert step_names(result) == [
            "prepare", "record", "database", "table_format", "load", "verify", "analyse",
        "warm", "fits", "settle",
            "measure", "drop",
        ]  # fmt: skip
        found = measured(result)
        assert found["transactions"] > 0
        assert "server_user_s" not in found
        assert "buffer_pool_read_requests" in found
        assert not [row for row in instance.query("SHOW DATABASES") if "millrace" in str(row[0])]


def test_a_snapshot_that_is_damaged_is_made_again_or_fails_the_trial(server_of: ServerOf) -> None:
    first = trial(server_of, "mysql-5.6.24")
    name = str(first.instances[0].facts.snapshot)
    [data_file] = paths.snapshots_dir().glob(f"**/{name}/**/ibdata1")
    with data_file.open("ab") as file:
        file.write(b"x")
    again = trial(server_of, "mysql-5.6.24")
    assert again.outcome == "finished", again.reason
    assert {"load", "save", "restore", "measure"} < set(step_names(again))
    assert again.instances[0].facts.snapshot == name

    # Only a server can detect this: its rows differ from the loaded ones.
    snapshot = manifest.read(paths.snapshots_dir() / name)
    assert snapshot is not None
    change(server_of, snapshot, "DELETE FROM millrace.sbtest2 WHERE id = 617")
    lost = trial(server_of, "mysql-5.6.24")
    assert (lost.outcome, lost.failed_step) == ("failed", "check_tables")
    assert "table millrace.sbtest2 differs" in (lost.reason or "")
    assert "found 999 rows, expected 1,000" in (lost.reason or "")
    assert f"millrace snapshots remove {name}" in (lost.reason or "")
    assert "transactions" not in measured(lost)
    snapshots.remove(name)


def change(server_of: ServerOf, snapshot: Snapshot, statement: str) -> None:
    """Have a server change a snapshot's tables; all digests of the result are valid."""
    server = server_of(snapshot.key.server)
    with lifecycle.create(server, FittedOptions("default", ())) as instance:
        snapshots.restore(instance, snapshot)
        instance.start(60)
        instance.query(statement)
        instance.stop(120)
        shutil.rmtree(snapshot.data_dir)
        shutil.copytree(instance.data_dir, snapshot.data_dir)
    files = manifest.list_files(snapshot.data_dir)
    found = data_files.digests(snapshot.data_dir, [file.path for file in files])
    (snapshot.directory / manifest.FILE).unlink()
    manifest.write(replace(snapshot, files=files, digests=found))
    assert snapshot.name in {each.name for each in snapshots.listing() if each.damage is None}
