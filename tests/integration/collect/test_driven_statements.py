"""Test that collectors see the statements of driven clients, as text and prepared."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest

from millrace.collect import server_totals
from millrace.collect.model import Collector, Target
from millrace.databases.mysql.wait_statistics import REST
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support import driving
from tests.support.driven import document_of
from tests.support.driving import by_socket, drive, specification

pytestmark = pytest.mark.integration

CLIENTS = 4
DIGESTS = "performance_schema.events_statements_summary_by_digest"
OF_A_TRANSACTION = {"SELECT": 3, "UPDATE": 1, "INSERT": 1}
TELLS_PREPARED = ("mysql-5.7.22", "mysql-9.7.4")


class Observed:
    """Collectors that look when measuring begins and again after some seconds of work."""

    def __init__(self, *observers: Collector, window_s: int) -> None:
        self._observers = observers
        self._window_s = window_s
        self._intervals = 0
        self._began = False

    def see(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "mark" and event["mark"] == "measure_started":
            self._began = True
            for observer in self._observers:
                observer.begin()
        if event["type"] == "interval" and self._began:
            self._intervals += 1
            if self._intervals == self._window_s:
                for observer in self._observers:
                    observer.end()

    def result(self) -> dict[str, Any]:
        return document_of(self._observers)


def observed(instance: Instance, protocol: str) -> dict[str, Any]:
    """Return the sections of a run of transactions of three SELECT, an UPDATE and an INSERT."""
    driving.fresh(instance)
    target = Target(instance, instance.pid, instance.data_dir, driving.DATABASE, {}, 60)
    with ExitStack() as opened:
        observers = [server_totals.StatusCollector(target), server_totals.waits(target)]
        for observer in observers:
            opened.callback(observer.close)
        # Totals of prepared statements are in several tables, which are read one after the other.
        window_s = 2 if protocol == "prepared" else 1
        both = Observed(*observers, window_s=window_s)
        settings = {"seconds": window_s + 0.5, "clients": CLIENTS, "protocol": protocol}
        done = driving.run(
            specification(by_socket(instance), drive("apart", **settings)),
            lambda event, _pid: both.see(event),
        )
        assert done.status == 0, done.said
        return both.result()


def verbs(digests: list[Mapping[str, Any]]) -> dict[str, int]:
    """Return how often the server executed each kind of statement."""
    counts: dict[str, int] = {}
    for row in digests:
        verb = row["text"].removeprefix("EXECUTE ").split()[0]
        counts[verb] = counts.get(verb, 0) + row["count"]
    return counts


def check_shares(counts: Mapping[str, float]) -> None:
    """Check that transactions are whole, except at the edges and for collectors' statements."""
    transactions = counts["INSERT"]
    assert transactions > 50
    for verb, times in OF_A_TRANSACTION.items():
        assert counts[verb] == pytest.approx(times * transactions, rel=0.05, abs=20), verb


@pytest.mark.quiet
@pytest.mark.parametrize(
    "name", ["mysql-5.6.24", "mysql-5.7.22", "mysql-9.7.4", "mariadb-10.1.23", "mariadb-11.8.9"]
)
def test_statements_are_reported(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name, performance_schema="ON") as instance:
        for protocol in ("text", "prepared"):
            check_statements(observed(instance, protocol), name, protocol)


def check_statements(document: dict[str, Any], name: str, protocol: str) -> None:
    deltas = document["status"]["deltas"]
    check_shares({verb: deltas[f"Com_{verb.lower()}"] for verb in OF_A_TRANSACTION})
    rest = [row for row in document["digests"] if row["text"] == REST]
    lost = [lack["what"] for lack in document["missing"] if "no digest" in lack["what"]]
    assert len(rest) == len(lost)
    if protocol == "text" or name in TELLS_PREPARED:
        check_shares(verbs(document["digests"]))
        assert rest == []
    else:
        (row,) = rest
        assert row["count"] > 300
        assert row["rows_affected"] > 100
        counted = name == "mariadb-11.8.9"
        assert (row["rows_sent"] is not None) is counted
    # A statement takes milliseconds, not microseconds or minutes of its client's time.
    seconds = sum(row["wait_s"] for row in document["digests"])
    assert 0.1 < seconds < CLIENTS * 20


def test_statement_with_several_rows_is_reported_once(instance_of: InstanceOf) -> None:
    """MySQL 5.6 creates several rows for a statement that is new to several sessions at once.

    Where its table was just emptied, it also gives the row of one statement to another one now and
    then, which takes a count away: so several attempts.
    """
    for _ in range(5):
        digests, counted = statements_with_several_rows(instance_of)
        counts = {row["text"]: row["count"] for row in digests}
        assert len(counts) == len(digests)
        # The clients continued for a moment.
        if all(counts.get(text, 0) >= count for text, count in counted.items()):
            assert len(digests) >= 4  # SELECT, UPDATE, INSERT, and BEGIN or COMMIT
            return
    pytest.fail(f"statements were lost: {counted} became {counts}")


def statements_with_several_rows(
    instance_of: InstanceOf,
) -> tuple[list[Mapping[str, Any]], Counter[str]]:
    """Return what the collector says when a statement had several rows, and the counts before."""
    digests: list[Mapping[str, Any]] = []
    counted: Counter[str] = Counter()

    def see(event: Mapping[str, Any], pid: int) -> None:
        if event["type"] == "interval" and not digests:
            counted.update(when_one_has_two_rows(instance))
            observer.end()
            digests.extend(document_of([observer])["digests"])
            driving.interrupt(pid)

    with instance_of("mysql-5.6.24", performance_schema="ON") as instance:
        driving.fresh(instance)
        target = Target(instance, instance.pid, instance.data_dir, driving.DATABASE, {}, 60)
        with closing(server_totals.waits(target)) as observer:
            # The count before must not exceed the count after the table is emptied.
            driving.ask_without_database(instance, f"TRUNCATE {DIGESTS}")
            observer.begin()
            settings = {"seconds": 60, "clients": 2 * CLIENTS, "protocol": "text"}
            driving.run(specification(by_socket(instance), drive("apart", **settings)), see)
    return digests, counted


def when_one_has_two_rows(instance: Instance) -> Counter[str]:
    """Empty the digests until one statement of the clients has two rows.

    Return how often each statement was counted then."""
    deadline = time.monotonic() + 50
    with driving.session(instance) as connection:
        while time.monotonic() < deadline:
            connection.query(f"TRUNCATE {DIGESTS}")
            time.sleep(0.02)
            rows = connection.query(
                f"SELECT digest_text, count_star FROM {DIGESTS} WHERE schema_name = DATABASE()"
            )
            if len(rows) > len(dict(rows)):
                return sum((Counter({text.strip(): count}) for text, count in rows), Counter())
    pytest.fail("no statement ever had two rows")
