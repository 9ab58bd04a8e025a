"""Test that the load generator's counts match the server's."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving, talk
from tests.support.driving import by_socket, drive, run, specification, succeeded

pytestmark = pytest.mark.integration

SERVERS = ("mysql-5.5.9", "mysql-5.7.22", "mysql-9.7.4", "mariadb-10.1.8", "mariadb-11.8.9")
WITH_TLS = ("mysql-9.7.4", "mariadb-11.8.9")
TRANSACTIONS = 500
PROTOCOLS = pytest.mark.parametrize("protocol", ["prepared", "text"])


@pytest.fixture(scope="module", params=SERVERS)
def instance(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    # Counts are the same whether a commit waits for the disk or not.
    options = {"skip_log_bin": None, "innodb_flush_log_at_trx_commit": "2"}
    with instance_of(request.param, max_connections="300", **options) as instance:
        yield instance


@PROTOCOLS
@pytest.mark.parametrize("threads", [1, 3])
def test_counts_are_those_of_the_server(instance: Instance, protocol: str, threads: int) -> None:
    driving.fresh(instance)
    before = driving.status(instance)
    settings = {"transactions": TRANSACTIONS, "protocol": protocol, "threads": threads}
    # No client waits for another, so that no transaction is retried.
    done = succeeded(specification(by_socket(instance), drive("apart", **settings)))
    after = driving.status(instance)
    driven = done.driven
    grown = {name: after[name] - before[name] for name in after if name in before}

    transaction = driving.record(driven, "transactions", "apart")
    assert transaction["count"] == TRANSACTIONS
    assert not transaction["errors"]
    assert transaction["retries"] == driven["rollbacks"] == driven["unanswered"] == 0
    for name, times, command in (
        ("BEGIN", 1, "Com_begin"),
        ("select", 3, "Com_select"),
        ("update_own", 1, "Com_update"),
        ("insert", 1, "Com_insert"),
        ("COMMIT", 1, "Com_commit"),
    ):
        statement = driving.record(driven, "statements", name)
        assert statement["count"] == grown[command] == times * TRANSACTIONS, name
        assert not statement["errors"], name
        assert driving.counted(statement["service"]) == statement["count"], name
        assert statement["service"]["count"] == statement["count"], name
    assert driving.counted(transaction["service"]) == TRANSACTIONS
    assert driving.record(driven, "statements", "select")["rows"] == 3 * TRANSACTIONS
    for name in ("update_own", "insert"):
        assert driving.record(driven, "statements", name)["affected_rows"] == TRANSACTIONS, name
    assert grown["Handler_update"] == TRANSACTIONS
    # Newer MariaDB no longer counts these.
    assert grown.get("Innodb_rows_inserted", TRANSACTIONS) == TRANSACTIONS
    rows = driving.ask(instance, "SELECT COUNT(*), SUM(n) FROM t")
    # Inserted rows have 5 in the column that updates increment.
    inserted, updated = TRANSACTIONS, TRANSACTIONS
    assert rows == ((driving.ROWS + inserted, 5 * inserted + updated),)
    intervals = [each for each in done.of_type("interval") if each["part"] == "measure"]
    assert sum(each["transactions"] for each in intervals) == TRANSACTIONS


@PROTOCOLS
def test_a_permutation_deletes_each_row_once(instance: Instance, protocol: str) -> None:
    driving.fresh(instance)
    phase = drive("delete", transactions=driving.ROWS // 2, protocol=protocol, threads=2, clients=7)
    driven = run(specification(by_socket(instance), phase)).driven
    deleted = driving.record(driven, "statements", "delete")
    assert (deleted["count"], deleted["affected_rows"]) == (driving.ROWS // 2, driving.ROWS // 2)
    assert driving.ask(instance, "SELECT COUNT(*) FROM t") == ((driving.ROWS - driving.ROWS // 2,),)


def test_a_permutation_that_is_used_up_ends_the_run_as_partial(instance: Instance) -> None:
    driving.fresh(instance)
    # One thread: where several share the work, one can end while another still holds some of it.
    phase = drive("delete", transactions=driving.ROWS + 1, threads=1)
    done = run(specification(by_socket(instance), phase))
    assert driving.record(done.driven, "statements", "delete")["affected_rows"] == driving.ROWS
    assert done.driven["partial"]
    assert "used up" in done.driven["partial_reason"]
    assert driving.ask(instance, "SELECT COUNT(*) FROM t") == ((0,),)


def test_rows_through_handler(instance: Instance) -> None:
    driving.fresh(instance)
    before = driving.status(instance)
    done = succeeded(
        specification(by_socket(instance), drive("handler", transactions=TRANSACTIONS))
    )
    read = driving.record(done.driven, "statements", "read")
    assert (read["count"], read["rows"]) == (TRANSACTIONS, TRANSACTIONS)
    after = driving.status(instance)
    assert after["Com_ha_read"] - before["Com_ha_read"] == TRANSACTIONS
    assert after["Com_ha_open"] - before["Com_ha_open"] == 4


@PROTOCOLS
def test_the_same_seed_gives_the_same_statements(instance: Instance, protocol: str) -> None:
    """Compare statements by client, for any number of threads.

    Clients progress at different speeds.

    Outside transactions: a retried one has its statements in the log twice."""

    def log(threads: int, seed: int, transactions: int) -> dict[tuple[str, ...], tuple[str, ...]]:
        driving.fresh(instance)
        driving.ask(instance, "TRUNCATE mysql.general_log")
        driving.ask(instance, "SET GLOBAL log_output = 'TABLE'")
        driving.ask(instance, "SET GLOBAL general_log = 1")
        phase = drive("loose", transactions=transactions, protocol=protocol, threads=threads)
        succeeded(specification(by_socket(instance), phase, seed=seed))
        driving.ask(instance, "SET GLOBAL general_log = 0")
        return _by_client(instance, "Execute" if protocol == "prepared" else "Query")

    # Enough that one of three threads cannot finish them before the others begin.
    again = log(3, 7, 3000)
    first, other = log(1, 7, 500), log(1, 8, 500)
    assert len(first) == len(other) == 4
    assert first.keys() == again.keys()
    assert not first.keys() & other.keys()
    for start, statements in first.items():
        for one, two in zip(statements, again[start], strict=False):
            assert one == two


def _by_client(instance: Instance, kind: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the statements of each session that sent many, by its first ones."""
    rows = driving.ask(
        instance,
        "SELECT thread_id, CAST(argument AS CHAR) FROM mysql.general_log"
        f" WHERE command_type = '{kind}' AND argument LIKE '%t%'",
    )
    sessions: dict[Any, list[str]] = defaultdict(list)
    for thread, statement in rows:
        if statement.startswith(("SELECT c", "UPDATE t", "INSERT INTO t")):
            sessions[thread].append(statement)
    return {tuple(each[:10]): tuple(each) for each in sessions.values() if len(each) >= 10}


def test_over_tcp_it_is_the_same(instance: Instance) -> None:
    driving.fresh(instance)
    for protocol in ("prepared", "text"):
        phase = drive("mixed", transactions=TRANSACTIONS, protocol=protocol)
        done = succeeded(specification(driving.by_tcp(instance), phase))
        assert driving.record(done.driven, "transactions", "mixed")["count"] == TRANSACTIONS
    rows = driving.ask(instance, "SELECT COUNT(*) FROM t")
    assert rows == ((driving.ROWS + 2 * TRANSACTIONS,),)


def test_an_open_loop_begins_or_skips_what_is_scheduled(instance: Instance) -> None:
    driving.fresh(instance)
    before = driving.status(instance)["Com_select"]
    pacing = {"kind": "open", "rate": 400, "max_lateness_s": 5}
    done = succeeded(specification(by_socket(instance), drive("select", pacing=pacing)))
    paced, record = done.driven["pacing"], done.driven["transactions"][0]
    assert record["count"] + paced["skipped"] == paced["scheduled"]
    # 2 s of a rate that every server can serve, within 5 sigma.
    assert abs(paced["scheduled"] - 800) <= 5 * 800**0.5
    assert paced["skipped"] <= 0.5 * paced["scheduled"]  # beyond what a busy host explains
    assert driving.counted(record["response"]) == record["count"]
    assert record["response"]["sum_s"] >= record["service"]["sum_s"]
    assert driving.status(instance)["Com_select"] - before == record["count"]


def test_clients_that_linger_are_there_when_the_measured_part_has_ended(instance: Instance) -> None:
    driving.fresh(instance)
    clients = []

    def look(event: driving.Event, _pid: int) -> None:
        if event.get("mark") == "measure_ended":
            clients.append(driving.connected(instance))

    phase = drive("select", transactions=TRANSACTIONS, clients=8, linger_s=2)
    done = succeeded(specification(by_socket(instance), phase), on_event=look)
    assert clients[0] >= 8
    assert not done.driven["partial"]


@pytest.mark.parametrize("name", WITH_TLS)
def test_encrypted_it_is_the_same(
    instance_of: InstanceOf, certificates: talk.Certificates, name: str
) -> None:
    with instance_of(name, **certificates.options) as instance:
        driving.fresh(instance)
        before = driving.status(instance)["Ssl_finished_accepts"]
        for tls in (
            {"mode": "required"},
            {"mode": "verify-identity", "ca": str(certificates.authority)},
        ):
            phase = drive("mixed", transactions=TRANSACTIONS)
            done = succeeded(specification(driving.by_tcp(instance, tls=tls), phase))
            assert driving.record(done.driven, "transactions", "mixed")["count"] == TRANSACTIONS
        # The session that phases share, and the clients.
        assert driving.status(instance)["Ssl_finished_accepts"] - before == 2 * (1 + 4)
