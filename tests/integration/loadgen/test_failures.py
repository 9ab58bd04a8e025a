"""Test that errors of a server are counted by code, or end the run with a clear message."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.errors import DatabaseError
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving
from tests.support.driving import by_socket, drive, run, specification, succeeded

pytestmark = pytest.mark.integration

SERVERS = ("mysql-5.6.24", "mysql-8.0.15", "mariadb-10.11.19")
CONNECTIONS = 20
UNKNOWN_THREAD = "1094"


@pytest.fixture(scope="module", params=SERVERS)
def instance(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    options = {"max_connections": str(CONNECTIONS), "skip_log_bin": None}
    with instance_of(request.param, **options) as instance:
        driving.fresh(instance)
        yield instance


def test_deadlocks_are_counted_and_retried(instance: Instance) -> None:
    before = _updates(instance)
    phase = drive("crossed", transactions=1_000, clients=8)
    done = succeeded(specification(by_socket(instance), phase))
    transactions = done.driven["transactions"]
    retries = sum(each["retries"] for each in transactions)
    failures = sum(each["errors"].get("1213", 0) for each in done.driven["statements"])
    assert retries == failures > 0
    assert not any(each["errors"] for each in transactions)
    assert sum(each["count"] for each in transactions) == 1_000
    # Each successful transaction updated two rows, and failed ones none.
    assert _updates(instance) - before == 2 * 1_000
    assert "eadlock" in done.driven["error_messages"]["1213"]


def test_deadlocks_without_another_try_are_errors(instance: Instance) -> None:
    before = _updates(instance)
    phase = drive("crossed", transactions=1_000, clients=8, retry=[])
    done = succeeded(specification(by_socket(instance), phase))
    transactions = done.driven["transactions"]
    n_done = sum(each["count"] for each in transactions)
    failed = sum(each["errors"].get("1213", 0) for each in transactions)
    assert failed > 0
    assert n_done + failed == 1_000
    assert sum(each["retries"] for each in transactions) == 0
    assert _updates(instance) - before == 2 * n_done


def test_lock_waits_that_take_too_long_are_counted(instance: Instance) -> None:
    with driving.session(instance) as holder:
        holder.query("BEGIN")
        holder.query("UPDATE t SET n = n WHERE id = 1")
        session = ("SET SESSION innodb_lock_wait_timeout = 1",)
        phase = drive("first", clients=2, seconds=2, retry=[])
        done = succeeded(specification(by_socket(instance), phase, session=session))
        holder.query("ROLLBACK")
    record = done.driven["transactions"][0]
    assert record["count"] == 0
    assert record["errors"].keys() == {"1205"}
    assert "Lock wait timeout" in done.driven["error_messages"]["1205"]


def test_a_killed_query_is_counted_and_its_client_goes_on(instance: Instance) -> None:
    ended = threading.Event()

    def kill_queries() -> None:
        # Including those under way at the end: the run waits for them.
        while not ended.wait(0.1):
            _kill(instance, "QUERY", "SUM(a.n")

    killer = threading.Thread(target=kill_queries)
    killer.start()
    try:
        done = succeeded(specification(by_socket(instance), drive("long", clients=2, seconds=1.5)))
    finally:
        ended.set()
        killer.join()
    record = done.driven["transactions"][0]
    assert record["count"] == 0
    assert record["errors"].keys() == {"1317"}
    # The first ones, and others that their clients sent after them.
    assert record["errors"]["1317"] > 2


def test_a_killed_connection_ends_the_run_with_what_it_has(instance: Instance) -> None:
    kill_one = driving.at_intervals(lambda _pid: _kill(instance, "CONNECTION", None, limit=1))
    done = run(specification(by_socket(instance), drive("select", seconds=60)), kill_one)
    assert done.status == 1
    assert done.driven["partial"]
    assert done.driven["transactions"][0]["count"] > 0
    assert done.error["kind"] in {"connection", "server"}
    assert "lost the connection" in done.said or "killed" in done.said


def test_an_interruption_leaves_a_partial_result(instance: Instance) -> None:
    spec = specification(by_socket(instance), drive("select", seconds=60))
    done = run(spec, driving.at_intervals(driving.interrupt))
    assert done.status == 130
    assert done.driven["partial"]
    assert done.driven["partial_reason"] == "interrupted"
    record = done.driven["transactions"][0]
    assert driving.counted(record["service"]) == record["count"] > 0
    assert done.error["kind"] == "interrupted"


def test_refused_login_reports_the_reason(instance: Instance) -> None:
    phase = drive("select", transactions=1)
    wrong = run(specification(by_socket(instance, password="wrong"), phase))
    assert (wrong.status, wrong.error["code"], wrong.error["phase"]) == (1, "1045", "connect")
    refused = run(specification(driving.by_tcp(instance, port=1), phase))
    assert (refused.status, refused.error["kind"]) == (1, "connection")
    assert "cannot connect to 127.0.0.1:1" in refused.said
    nowhere = run(specification(by_socket(instance, database="nowhere"), phase))
    assert (nowhere.status, nowhere.error["code"]) == (1, "1049")


def test_more_connections_than_the_server_takes(instance: Instance) -> None:
    # One more connection is reserved for an administrator.
    phase = drive("select", transactions=1, clients=CONNECTIONS + 2)
    done = run(specification(by_socket(instance), phase))
    assert (done.status, done.error["code"], done.error["phase"]) == (1, "1040", "measure")
    assert "Too many connections" in done.said
    driving.status(instance)  # it waits until the server has closed all of them
    # All connections: the run keeps none for itself while its last phase drives them.
    phase = drive("select", transactions=500, clients=CONNECTIONS)
    assert run(specification(by_socket(instance), phase)).status == 0


def test_missing_tables_fail_before_measuring(instance: Instance) -> None:
    driving.ask(instance, "DROP TABLE t")
    try:
        done = run(specification(by_socket(instance), drive("select", transactions=1)))
        assert (done.status, done.error["code"]) == (1, "1146")
        # As text, each statement gets its own error.
        done = run(specification(by_socket(instance), drive("select", protocol="text", seconds=1)))
        assert done.status == 0
        assert done.driven["transactions"][0]["errors"].keys() == {"1146"}
        assert (
            done.driven["error_messages"]["1146"] == f"Table '{driving.DATABASE}.t' doesn't exist"
        )
    finally:
        driving.fresh(instance)


@pytest.mark.parametrize("pacing", [{"kind": "closed"}, {"kind": "open", "rate": 500}])
def test_a_server_killed_in_mid_run_leaves_a_partial_result(
    instance: Instance, pacing: dict[str, Any]
) -> None:
    phase = drive("mixed", seconds=60, clients=16, threads=2, pacing=pacing)
    kill = driving.at_intervals(lambda _pid: instance.kill())
    try:
        done = run(specification(by_socket(instance), phase), kill)
    finally:
        instance.kill()
        instance.start(60)
    assert done.status == 1
    assert done.driven["partial"]
    assert done.driven["duration_s"] < 60
    record = done.driven["transactions"][0]
    assert driving.counted(record["service"]) == record["count"] > 0
    assert done.error["kind"] == "connection"
    assert "lost the connection of client" in done.said
    assert [event["type"] for event in done.events[-3:]] == ["phase", "error", "summary"]


def _updates(instance: Instance) -> int:
    ((total,),) = driving.ask(instance, "SELECT SUM(n) FROM t WHERE id <= 2")
    return int(total)


def _kill(instance: Instance, what: str, text: str | None, limit: int = 100) -> None:
    """Kill the clients' queries or connections."""
    rows = driving.ask(instance, "SHOW FULL PROCESSLIST")
    mine = [
        row[0] for row in rows if row[3] == driving.DATABASE and row[7] != "SHOW FULL PROCESSLIST"
    ]
    if text is not None:
        mine = [row[0] for row in rows if text in (row[7] or "")]
    for number in mine[:limit]:
        try:
            driving.ask(instance, f"KILL {what} {number}")
        except DatabaseError as error:
            if error.code != UNKNOWN_THREAD:  # it may have ended by itself
                raise
