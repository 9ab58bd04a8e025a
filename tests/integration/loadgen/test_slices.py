"""Test that servers which take turns are driven one at a time, with the same work."""

import itertools
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving
from tests.support.driving import by_socket, drive, run, specification, succeeded

pytestmark = pytest.mark.integration

SERVER = "mysql-8.0.33"
AT_LEAST_S = 0.005
SLICES = {"at_least_s": AT_LEAST_S, "at_most_s": 1.0, "transactions": 150}
Pair = tuple[Instance, Instance]
CLIENTS = pytest.mark.parametrize("clients", [1, 4])


@pytest.fixture(scope="module")
def instances(instance_of: InstanceOf) -> Iterator[Pair]:
    options = {"skip_log_bin": None, "innodb_flush_log_at_trx_commit": "2"}
    with instance_of(SERVER, **options) as first, instance_of(SERVER, **options) as second:
        driving.fresh(first)
        driving.fresh(second)
        yield first, second


def in_slices(instances: Pair, test: str, **settings: Any) -> dict[str, Any]:
    first, second = instances
    spec = specification(by_socket(first), drive(test, slices=SLICES, **settings))
    return {**spec, "against": [by_socket(second)]}


def assert_whole_groups(slices: list[list[int]]) -> None:
    """Assert that slices are as long as ordered, follow each other, and are ABBA or BAAB."""
    assert len(slices) % 4 == 0
    assert all(before[2] <= after[1] for before, after in pairwise(slices))
    for _side, from_ns, until_ns, transactions, _rested_ns in slices:
        assert until_ns - from_ns >= AT_LEAST_S * 1e9
        assert transactions >= SLICES["transactions"]
    orders = [tuple(each[0] for each in slices[at : at + 4]) for at in range(0, len(slices), 4)]
    assert set(orders) <= {(0, 1, 1, 0), (1, 0, 0, 1)}
    # A busy host has few groups, all of which may have drawn the same order.
    assert len(set(orders)) == 2 or len(orders) < 20


def successes(side: Mapping[str, Any], of: str) -> int:
    (record,) = side[of]
    assert not record["errors"]
    assert driving.counted(record["service"]) == record["count"]
    return int(record["count"])


@CLIENTS
@pytest.mark.parametrize("protocol", ["prepared", "text"])
def test_counts_of_sides_are_those_of_their_servers(
    instances: Pair, clients: int, protocol: str
) -> None:
    before = [driving.status(each) for each in instances]
    done = succeeded(in_slices(instances, "select", clients=clients, seconds=2, protocol=protocol))
    after = [driving.status(each) for each in instances]
    driven = done.driven
    assert (driven["clients"], driven["threads"], driven["unanswered"]) == (clients, 1, 0)
    assert not driven["partial"]
    for side, earlier, later in zip(driven["sides"], before, after, strict=True):
        selects = later["Com_select"] - earlier["Com_select"]
        assert successes(side, "statements") == successes(side, "transactions") == selects > 0
        assert later["Connections"] - earlier["Connections"] >= clients
    totals = [successes(side, "statements") for side in driven["sides"]]
    assert successes(driven, "statements") == sum(totals)
    assert_whole_groups(driven["slices"])
    assert sum(each[3] for each in driven["slices"]) <= sum(totals)
    # All but a begun group at the end, of a part of 2 s; slices of a busy host are longer.
    assert len(driven["slices"]) >= 20


@CLIENTS
def test_one_side_works_at_a_time(instances: Pair, clients: int) -> None:
    """Update rows of both servers with the time at which each server did it."""
    now = "TIMESTAMPDIFF(MICROSECOND, '2000-01-01', SYSDATE(6))"
    stamp = f"INSERT INTO worked (at_us) VALUES ({now})"
    statements = (
        "DROP TABLE IF EXISTS worked",
        "CREATE TABLE worked (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT, at_us BIGINT NOT NULL)",
        # What a server inserts it also stamps, at the start of the statement.
        "DROP TRIGGER IF EXISTS stamped",
        f"CREATE TRIGGER stamped BEFORE INSERT ON t FOR EACH ROW {stamp}",
    )
    for each, sql in itertools.product(instances, statements):
        driving.ask(each, sql)
    try:
        done = succeeded(in_slices(instances, "insert", clients=clients, seconds=1.5))
        stamps = sorted(
            (int(at_us), side)
            for side, each in enumerate(instances)
            for (at_us,) in driving.ask(each, "SELECT at_us FROM worked")
        )
    finally:
        for each in instances:
            driving.ask(each, "DROP TRIGGER stamped")
            driving.fresh(each)
    sides = done.driven["sides"]
    assert len(stamps) == sum(successes(side, "statements") for side in sides)
    # Sides change where slices change: a side that worked in the other's turn would change more.
    changes = sum(before != after for (_, before), (_, after) in pairwise(stamps))
    assert_whole_groups(done.driven["slices"])
    turns = [each[0] for each in done.driven["slices"]]
    expected = sum(before != after for before, after in pairwise(turns))
    # The begun group at the end is in the stamps only, and groups are of four slices.
    assert expected <= changes <= expected + 4


def test_both_sides_get_the_same_statements(instances: Pair) -> None:
    """Compare the rows that the clients of each side updated, by their statements so far."""
    log = "SET GLOBAL general_log = {}"
    for each in instances:
        driving.ask(each, "SET GLOBAL log_output = 'TABLE'")
        driving.ask(each, "TRUNCATE TABLE mysql.general_log")
        driving.ask(each, log.format("ON"))
    try:
        succeeded(in_slices(instances, "select", clients=4, seconds=1, protocol="text"))
    finally:
        for each in instances:
            driving.ask(each, log.format("OFF"))
    first, second = (asked(each) for each in instances)
    assert len(first) == len(second) == 4
    pairs = [[(one, other) for other in second if other[:20] == one[:20]] for one in first]
    for found in pairs:
        [(one, other)] = found
        shorter = min(len(one), len(other))
        assert one[:shorter] == other[:shorter]


def asked(instance: Instance) -> list[list[str]]:
    """Return the text queries of each session that read the table."""
    rows = driving.ask(
        instance,
        "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log"
        " WHERE command_type = 'Query' AND argument LIKE 'SELECT c FROM%' ORDER BY event_time",
    )
    by_session: dict[int, list[str]] = {}
    for session, sql in rows:
        by_session.setdefault(int(session), []).append(str(sql))
    return list(by_session.values())


@CLIENTS
def test_a_second_server_that_is_killed_is_named(instances: Pair, clients: int) -> None:
    second = instances[1]

    kill = driving.at_intervals(lambda _pid: second.kill())
    try:
        done = run(in_slices(instances, "select", clients=clients, seconds=60), kill)
    finally:
        second.kill()
        second.start(60)
    assert done.status == 1
    assert done.driven["partial"]
    assert done.driven["duration_s"] < 60
    assert (done.error["kind"], done.error["side"]) == ("connection", 1)
    assert done.error["message"].startswith("side 1: lost the connection of client ")
    assert "side 1: lost the connection" in done.said
    assert successes(done.driven["sides"][0], "statements") > 0
    assert_whole_groups(done.driven["slices"])


def test_a_second_server_that_lets_nobody_in_is_named(instances: Pair) -> None:
    spec = in_slices(instances, "select", seconds=1)
    spec["against"][0]["password"] = "wrong"
    done = run(spec)
    assert (done.status, done.error["code"], done.error["phase"]) == (1, "1045", "measure")
    assert done.error["side"] == 1
    assert done.error["message"].startswith("side 1: Access denied")
    assert not done.of_type("phase")


def test_an_interruption_leaves_whole_groups(instances: Pair) -> None:
    interrupt = driving.at_intervals(driving.interrupt)
    done = run(in_slices(instances, "select", seconds=60), interrupt)
    assert done.status == 130
    assert done.driven["partial_reason"] == "interrupted"
    assert_whole_groups(done.driven["slices"])
