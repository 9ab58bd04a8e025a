"""Test `millrace-load bench` on a running server, with sysbench's options."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving

pytestmark = pytest.mark.integration

TABLES = ("--tables=2", "--table-size=500")
# Workloads whose tables are large by default, and tests that only a time ends.
FEW = {
    "drop-table": ("--set=dropped_rows=100",),
    "insert-benchmark": ("--set=rows=1000", "--set=changed_rows=200"),
    "linkbench": ("--set=nodes=2000", "--set=max_links=200"),
    "tpcc-like": ("--set=warehouses=1",),
}
WITH_BACKGROUND_CLIENTS = [f"{kind}{rate}" for kind in ("qp", "qr") for rate in (100, 500, 1000)]
ENDS = {
    **dict.fromkeys(WITH_BACKGROUND_CLIENTS, ("--time=1", "--threads=2")),
    "l.x": ("--events=1", "--threads=1"),  # indexes that a client can create only once
}


@pytest.fixture(scope="module", params=["mysql-8.0.12", "mariadb-10.11.19"])
def instance(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    with instance_of(request.param) as instance:
        driving.ask_without_database(instance, "CREATE DATABASE sbtest")
        yield instance


def output_of(*arguments: str) -> str:
    """Return what the load generator prints for a command that needs no server."""
    return subprocess.check_output([str(find_load_generator()), *arguments], text=True)


def command(instance: Instance, *options: str) -> list[str]:
    return [
        str(find_load_generator()),
        "bench",
        f"--mysql-socket={instance.socket}",
        f"--mysql-user={instance.user}",
        *options,
    ]


def bench(
    instance: Instance, *options: str, password: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run bench; the password is in the environment."""
    return subprocess.run(
        command(instance, *options),
        env={**os.environ, "MYSQL_PWD": instance.password if password is None else password},
        capture_output=True,
        text=True,
        check=False,
    )


def succeeded(instance: Instance, *options: str) -> subprocess.CompletedProcess[str]:
    done = bench(instance, *options)
    assert done.returncode == 0, done.stderr
    return done


def test_prepare_run_and_cleanup(instance: Instance, tmp_path: Path) -> None:
    test = "--workload=oltp_read_write"
    missing = bench(instance, test, *TABLES)
    assert missing.returncode == 1
    assert "doesn't exist (error 1146" in missing.stderr
    advice = "millrace-load bench prepare --workload oltp_read_write and the same --tables"
    assert advice in missing.stderr
    assert "--threads and --set" in missing.stderr

    prepared = succeeded(instance, "prepare", test, *TABLES, "--threads=2")
    assert "2 tables, 1,000 rows" in prepared.stdout
    assert "1,000 rows verified" in prepared.stdout
    again = bench(instance, "prepare", test, *TABLES)
    assert again.returncode == 1
    assert "millrace-load bench cleanup --workload oltp_read_write" in again.stderr
    assert "--tables and --threads" in again.stderr

    file = tmp_path / "result.jsonl"
    run = succeeded(
        instance, test, *TABLES, "--threads=4", "--events=200", "--percentile=99.99",
        "--histogram", f"--json={file}",
    )  # fmt: skip
    for expected in ("4 clients, prepared statements", "p99.99", "oltp_read_write", "COMMIT",
                     "Load generator: ", "****"):  # fmt: skip
        assert expected in run.stdout
    events = [json.loads(line) for line in file.read_text().splitlines()]
    (driven,) = [event for event in events if event["type"] == "phase"]
    assert driving.record(driven, "transactions", "oltp_read_write")["count"] == 200
    merged = output_of("histogram", "--json", str(file), str(file))
    lines = [json.loads(line) for line in merged.splitlines()]
    (whole,) = [each for each in lines if each["of"] == "transaction"]
    assert (whole["count"], driving.counted(whole)) == (400, 400)

    succeeded(instance, "cleanup", test, *TABLES)
    assert not driving.ask_without_database(instance, "SHOW TABLES FROM sbtest")


def test_a_rate_warm_up_and_intervals(instance: Instance) -> None:
    test = "--workload=point-query"
    succeeded(instance, "prepare", test)
    try:
        run = succeeded(
            instance, test, "--rate=300", "--connections=8", "--time=2", "--warmup-time=1",
            "--db-ps-mode=disable", "--json=-",
        )  # fmt: skip
        events = [json.loads(line) for line in run.stdout.splitlines()]
        assert events[-2]["pacing"]["rate"] == 300
        assert events[-2]["protocol"] == "text"
        for expected in ("statements as text, 300 transactions a second together, warm-up 1 s",
                         "warm-up clients: 8", "response", "arrivals at 300 a second"):  # fmt: skip
            assert expected in run.stderr
    finally:
        succeeded(instance, "cleanup", test)


def test_every_test_that_is_listed_runs(instance: Instance) -> None:
    """Run each test on tables of a few rows; other tests check their statements."""
    tests = json.loads(output_of("tests", "--json"))
    for workload in sorted({test["workload"] for test in tests}):
        names = [test["name"] for test in tests if test["workload"] == workload]
        few = FEW.get(workload, ())
        tables = (f"--workload={workload}/{names[0]}", "--threads=2", *few)
        succeeded(instance, "prepare", *tables)
        for name in names:
            ends = ENDS.get(name, ("--events=4", "--threads=2"))
            run = bench(instance, f"--workload={workload}/{name}", *ends, *few)
            assert run.returncode == 0, (name, run.stderr)
            assert "\nErrors" not in run.stdout, (name, run.stdout)
        succeeded(instance, "cleanup", *tables)


def test_hints_are_printed_with_errors(instance: Instance) -> None:
    wrong = bench(instance, "--workload=point-query", password="wrong")
    assert wrong.returncode == 1
    assert "error 1045" in wrong.stderr
    assert "MYSQL_PWD" in wrong.stderr
    unknown = bench(instance, "--workload=point-query", "--mysql-db=nowhere")
    assert unknown.returncode == 1
    assert "CREATE DATABASE nowhere" in unknown.stderr
    succeeded(instance, "prepare", "--workload=point-query")
    try:
        many = bench(instance, "--workload=point-query", "--connections=2000")
    finally:
        succeeded(instance, "cleanup", "--workload=point-query")
    assert many.returncode == 1
    assert "error 1040" in many.stderr
    assert "max_connections" in many.stderr


def test_the_file_gets_everything_when_nobody_reads_the_screen(
    instance: Instance, tmp_path: Path
) -> None:
    test = "--workload=point-query"
    succeeded(instance, "prepare", test, *TABLES)
    file = tmp_path / "result.jsonl"
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        command(instance, test, *TABLES, "--time=10", f"--json={file}"),
        env={**os.environ, "MYSQL_PWD": instance.password},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    succeeded(instance, "cleanup", test, *TABLES)
    assert run.returncode == 141, run.stderr  # it ends, since nobody reads its results
    assert not run.stderr
    kinds = [json.loads(line)["type"] for line in file.read_text().splitlines()]
    assert kinds[0] == "start"
    assert kinds[-1] == "summary"
