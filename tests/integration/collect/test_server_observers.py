"""Test that real servers of all versions report their counters, waits and plans."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from millrace import databases
from millrace.collect import plans, server_totals
from millrace.collect.model import Collector, Target
from millrace.databases.base import ServerClient, version_key
from millrace.databases.client import Session
from millrace.errors import Unavailable
from millrace.model.servers import AttachedServer, InstalledServer
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support.driven import document_of

pytestmark = pytest.mark.integration

ON_BY_DEFAULT = ["mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33", "mysql-9.7.4"]
OFF_BY_DEFAULT = [
    "mysql-5.5.9", "mysql-5.5.34", "mariadb-10.1.23", "mariadb-10.11.19", "mariadb-11.8.9",
]  # fmt: skip
SERVERS = [*ON_BY_DEFAULT, *OFF_BY_DEFAULT]
STATEMENTS = {
    "one": "SELECT k FROM t WHERE id = 1",
    "change": "UPDATE t SET k = k + 1 WHERE id = 2",
    "commit": "COMMIT",
    "wrong": "SELECT nothing FROM t",
}
TIMES = 50


@dataclass(frozen=True)
class Server:
    """The facts about a server's version that a test needs."""

    family: str
    version: tuple[int, ...]

    def has(self, mysql: str | None, mariadb: str | None) -> bool:
        """Return whether the version is at least this new; None is never."""
        since = mysql if self.family == "mysql" else mariadb
        return since is not None and self.version >= version_key(since)


def server_of(instance: Instance | AttachedInstance) -> Server:
    assert isinstance(instance.server, InstalledServer)
    return Server(instance.server.family, version_key(instance.server.version))


def make_table(instance: Instance) -> None:
    instance.query("CREATE DATABASE d")
    instance.query("CREATE TABLE d.t (id int PRIMARY KEY, k int, KEY (k)) ENGINE=InnoDB")
    instance.query("INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3)")
    assert gone(instance)  # a server counts the statements of a closing session twice


def target_of(instance: Instance | AttachedInstance) -> Target:
    ours = instance if isinstance(instance, Instance) else None
    return Target(
        client=instance,
        pid=None if ours is None else ours.pid,
        data_dir=None if ours is None else ours.data_dir,
        database="d",
        statements=STATEMENTS,
        limit_s=60,
    )


def client_of(instance: Instance | AttachedInstance) -> Session:
    """Open a session that is not millrace's own: of another client of the server."""
    client = ServerClient(instance.server, instance.family, instance._address)
    return client.connect("d", limit_s=60)


@contextmanager
def opened(*makes: Any, target: Target) -> Iterator[list[Collector]]:
    observers: list[Collector] = []
    try:
        for make in makes:
            observers.append(make(target))  # noqa: PERF401 - those that are open are closed
        yield observers
    finally:
        for observer in observers:
            observer.close()


def observed(instance: Instance | AttachedInstance, *, window_s: float = 0.0) -> dict[str, Any]:
    """Return the sections of all collectors while a client runs each statement TIMES times in d."""
    makes = (server_totals.StatusCollector, server_totals.waits, plans.collector)
    with (
        opened(*makes, target=target_of(instance)) as observers,
        contextlib.closing(client_of(instance)) as client,
    ):
        for observer in observers:
            observer.begin()
        for _ in range(TIMES):
            client.query(STATEMENTS["one"])
            client.query(STATEMENTS["change"])
        time.sleep(window_s)
        for observer in observers:
            observer.end()
        found = document_of(observers)
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.mark.parametrize("name", SERVERS)
def test_every_section_comes_as_it_is_delivered(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name) as instance:
        make_table(instance)
        found = observed(instance, window_s=1.2)
        check_counts(found, server_of(instance))
        check_engine_and_process_list(found)
        check_plans(found["plans"], server_of(instance))
        on = server_of(instance).has("5.6", None)  # the default of the server
        assert found["waits"]["enabled"] is on
        if not on:
            assert found["waits"]["why"] == "the Performance Schema is off"
            assert found["waits"]["events"] == found["digests"] == found["stages"] == []
            assert any("performance_schema = ON" in (m["hint"] or "") for m in found["missing"])
        assert gone(instance)
        if on:
            check_limited_account(instance)


@pytest.mark.parametrize("name", SERVERS)
def test_waits_with_all_of_the_performance_schema_on(instance_of: InstanceOf, name: str) -> None:
    every = {"performance_schema_instrument": "%=ON"} if "-5.5" not in name else {}
    with instance_of(name, performance_schema="ON", **every) as instance:
        make_table(instance)
        found = observed(instance)
        server = server_of(instance)
        check_counts(found, server)
        check_waits(found["waits"])
        check_digests(found, server)
        if server.has("5.6", "10.0"):
            stages = found["stages"]
            assert any(stage["name"].startswith("stage/sql/") for stage in stages)
            assert stages == sorted(stages, key=lambda stage: -stage["wait_s"])
            assert found["missing"] == []
        assert gone(instance)
        with contextlib.closing(instance.connect()) as session:
            check_kinds(
                databases.get(server.family).monitoring.thread_roles(session).kinds(), instance
            )


@pytest.mark.parametrize("name", ON_BY_DEFAULT)
def test_without_the_performance_schema(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name, performance_schema="OFF") as instance:
        make_table(instance)
        found = observed(instance)
        check_counts(found, server_of(instance))
        assert not found["waits"]["enabled"]
        with contextlib.closing(instance.connect()) as session:
            assert instance.family.monitoring.thread_roles(session).kinds() == {}


def check_counts(found: Mapping[str, Any], server: Server) -> None:
    deltas, gauges = found["status"]["deltas"], found["status"]["gauges"]
    assert deltas["Com_update"] == TIMES
    assert deltas["Com_select"] == TIMES
    # MySQL 5.6 counts a session that ends twice for a moment, so the first reading can be too high.
    assert 2 * TIMES - 5 <= deltas["Questions"] <= 2 * TIMES
    assert deltas["Bytes_sent"] < 1000 * TIMES
    assert deltas["Handler_update"] == TIMES
    assert all(delta > 0 for delta in deltas.values())
    assert gauges["Innodb_page_size"] == 16384
    assert gauges["Threads_connected"] >= 4
    assert not deltas.keys() & gauges.keys()
    assert "Innodb_buffer_pool_pages_dirty" in gauges
    has_metrics = server.has("5.6", "10.0")
    assert bool(found["status"]["metrics"]) is has_metrics
    if has_metrics:
        assert found["status"]["metrics"]["buffer_pool_read_requests"] >= TIMES
        assert "trx_rseg_history_len" in found["status"]["metric_gauges"]


def check_engine_and_process_list(found: Mapping[str, Any]) -> None:
    first, last = found["engine_status"]
    assert first["t_s"] == 0
    assert last["t_s"] > 1
    assert 0 < first["figures"]["log_position"] <= last["figures"]["log_position"]
    assert set(first) == {"t_s", "figures"}
    # On a busy host the client may still be at work when the first one is taken.
    lists = found["processlist"]
    assert lists[0]["t_s"] >= 1
    client = [row for row in lists[-1]["rows"] if row["db"] == "d"]
    assert [row["command"] for row in client] == ["Sleep"]


def check_plans(found: Mapping[str, Any], server: Server) -> None:
    assert list(found) == list(STATEMENTS)
    (row,) = found["one"]["rows"]
    assert (row["table"], row["key"], row["rows"]) == ("t", "PRIMARY", 1)
    assert found["one"]["error"] is None
    if server.has("5.6", "10.0"):
        assert found["change"]["error"] is None
        assert found["change"]["rows"][0]["key"] == "PRIMARY"
    else:
        assert found["change"] == {
            "sql": STATEMENTS["change"],
            "rows": [],
            "error": "this version explains SELECT only",
        }
    assert found["commit"]["rows"] == []
    assert "explains" in found["commit"]["error"]
    assert "Unknown column" in found["wrong"]["error"]


def check_waits(found: Mapping[str, Any]) -> None:
    events = found["events"]
    assert found["enabled"]
    assert found["not_instrumented"] == []
    assert 0 < len(events) <= 200
    # MariaDB from 10.5 does not report the writes of its log, so file writes may be missing.
    assert any(event["name"].startswith("wait/io/") for event in events)
    assert any(event["name"].startswith("wait/synch/") for event in events)
    assert "idle" not in {event["name"] for event in events}
    assert all(event["count"] > 0 for event in events)
    waits_s = [event["wait_s"] for event in events]
    assert waits_s == sorted(waits_s, reverse=True)
    # The unit is picoseconds: no condition was waited for longer than the window, with all
    # background threads together.
    assert 0 < waits_s[0] < 1000


def check_digests(found: Mapping[str, Any], server: Server) -> None:
    if not server.has("5.6", "10.0"):
        assert found["digests"] == []
        assert any("does not have it" in lack["what"] for lack in found["missing"])
        return
    by_verb = {row["text"].split()[0]: row for row in found["digests"]}
    assert set(by_verb) == {"SELECT", "UPDATE"}  # and no statement of the collectors
    select, update = by_verb["SELECT"], by_verb["UPDATE"]
    assert (select["count"], update["count"]) == (TIMES, TIMES)
    assert (select["rows_sent"], update["rows_affected"]) == (TIMES, TIMES)
    assert 0 < select["wait_s"] < 60
    assert (select["errors"], select["tmp_tables"]) == (0, 0)
    assert select["cpu_s"] is None


def check_kinds(kinds: Mapping[int, str], instance: Instance) -> None:
    if not server_of(instance).has("5.7", "10.5"):
        assert kinds == {}
        return
    assert instance.pid is not None
    assert kinds[instance.pid] == "main"
    assert {"page_cleaner", "background"} <= set(kinds.values())
    assert "connection" not in kinds.values()  # all clients are gone


def gone(instance: Instance) -> bool:
    """Return whether all other sessions disappear within a moment."""
    for _ in range(100):
        rows = instance.query("SHOW PROCESSLIST")
        if sum(row[4] in ("Sleep", "Query") for row in rows) == 1:
            return True
        time.sleep(0.05)
    return False


def test_client_threads_differ_from_observers(instance_of: InstanceOf) -> None:
    for name in ("mysql-8.0.33", "mariadb-10.11.19"):
        with (
            instance_of(name, performance_schema="ON") as instance,
            contextlib.closing(instance.connect("mysql")),
            contextlib.closing(instance.connect("mysql")),
            contextlib.closing(instance.connect()) as session,
        ):
            kinds = instance.family.monitoring.thread_roles(session).kinds()
            assert sum(kind == "connection" for kind in kinds.values()) == 2


def test_cpu_time_of_statements_where_the_server_takes_it(instance_of: InstanceOf) -> None:
    with instance_of("mysql-8.0.33", performance_schema_consumer_events_statements_cpu="ON") as one:
        make_table(one)
        (select, update) = sorted(observed(one)["digests"], key=lambda row: str(row["text"]))
        assert 0 < select["cpu_s"] <= select["wait_s"] * 1.5
        assert update["cpu_s"] > 0


@pytest.mark.parametrize("name", OFF_BY_DEFAULT)
def test_limited_account_reports_missing_rights(instance_of: InstanceOf, name: str) -> None:
    """Test it where the test of all sections, on a server with defaults, does not."""
    with instance_of(name, performance_schema="ON") as instance:
        make_table(instance)
        check_limited_account(instance)


def check_limited_account(instance: Instance) -> None:
    instance.query("CREATE USER 'few'@'127.0.0.1' IDENTIFIED BY 'words'")
    instance.query("GRANT ALL ON d.* TO 'few'@'127.0.0.1'")
    dsn = f"mysql://few:words@127.0.0.1:{instance.port}/?allow-unverified=yes"
    attached = AttachedInstance(AttachedServer("theirs", instance.server.family, dsn))
    found = observed(attached, window_s=1.2)
    lacks = {lack["what"].split(":")[0]: lack["hint"] for lack in found["missing"]}
    assert "GRANT PROCESS" in lacks["SHOW ENGINE INNODB STATUS"]
    assert found["engine_status"] == []
    if server_of(instance).has("5.6", "10.0"):
        assert "GRANT PROCESS" in lacks["information_schema.INNODB_METRICS"]
    assert found["status"]["deltas"]["Com_update"] == TIMES
    assert any(row["db"] == "d" for row in found["processlist"][0]["rows"])
    assert found["plans"]["one"]["rows"][0]["key"] == "PRIMARY"
    if not found["waits"]["enabled"]:
        assert "permission denied" in found["waits"]["why"]
        assert "GRANT SELECT ON performance_schema.*" in lacks[found["waits"]["why"].split(":")[0]]
    with contextlib.closing(attached.connect()) as session:
        instance.family.monitoring.thread_roles(session).kinds()


def test_no_session_is_a_reason_not_a_failure(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.7.22") as instance:
        dsn = f"mysql://root:wrong@127.0.0.1:{instance.port}/"
        attached = AttachedInstance(AttachedServer("theirs", "mysql", dsn))
        for make in (server_totals.StatusCollector, server_totals.waits):
            with pytest.raises(Unavailable, match="denied"):
                make(target_of(attached))
        with pytest.raises(Unavailable, match="denied"):
            plans.collector(target_of(attached))


def test_sums_are_missing_after_truncation(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.7.22") as instance:
        make_table(instance)
        with (
            opened(server_totals.waits, target=target_of(instance)) as (observer,),
            contextlib.closing(client_of(instance)) as client,
        ):
            for _ in range(TIMES):
                client.query(STATEMENTS["one"])
            observer.begin()
            client.query(STATEMENTS["one"])
            instance.query("TRUNCATE performance_schema.events_statements_summary_by_digest")
            client.query(STATEMENTS["one"])
            observer.end()
            digests = document_of([observer])["digests"]
        assert digests == []


def test_a_server_that_dies_ends_the_watching(instance_of: InstanceOf) -> None:
    with instance_of("mariadb-10.11.19") as instance:
        make_table(instance)
        before = threading.active_count()
        with opened(server_totals.StatusCollector, target=target_of(instance)) as (observer,):
            observer.begin()
            instance.kill()
            time.sleep(1.2)
        assert threading.active_count() == before
