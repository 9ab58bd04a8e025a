"""Test the kinds of threads, and which of them serve clients, on every kind of real server."""

import contextlib
from collections import Counter
from typing import Any

import pytest

from millrace.collect import thread_states, thread_usage
from millrace.collect.threads.thread_watch import ThreadWatch
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support.driven import Open, loaded, observed, target_of

pytestmark = pytest.mark.integration

ON_BY_DEFAULT = ("mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33", "mysql-9.7.4")
SERVERS = (
    "mysql-5.5.34", *ON_BY_DEFAULT, "mariadb-10.1.23", "mariadb-10.11.19", "mariadb-11.8.9",
)  # fmt: skip

# The latest servers would choose these by the number of CPUs.
BY_CPUS = {"innodb_read_io_threads": "4", "innodb_write_io_threads": "4"}
IO = {"io": 10}
TIMERS = {"timer": 3}
BY_FUNCTION = {
    # Here the master thread purges and flushes.
    "mysql-5.5.34": {**IO, **TIMERS},
    "mysql-5.6.24": {**IO, **TIMERS, "purge": 1, "page_cleaner": 1},
    "mysql-5.7.22": {**IO, **TIMERS, "purge": 4, "page_cleaner": 1},
    "mysql-8.0.33": {"io": 9, **TIMERS, "purge": 4, "page_cleaner": 1, "log": 5, "checkpoint": 1},
    "mysql-9.7.4": {"io": 9, **TIMERS, "purge": 1, "log": 5, "checkpoint": 1},
    "mariadb-10.1.23": {**IO, "timer": 4, "purge": 1, "page_cleaner": 2},
    # The names of this version.
    "mariadb-11.8.9": {"io": 1, "timer": 1, "page_cleaner": 1},
}
NO_SYMBOLS = "mariadb-10.11.19"

# Clients that leave CPU time to the collectors, which else begin when the time is nearly over.
SHORT: dict[str, Any] = {"time_s": 1.0, "warmup_s": 0.0, "rate": 500}


@pytest.fixture(autouse=True)
def frequent_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample more often than in a trial, so that a second is enough."""
    monkeypatch.setattr(thread_states, "budget", lambda _connections: 0.05)


@pytest.mark.parametrize("schema", ["ON", "OFF"])
@pytest.mark.parametrize("name", SERVERS)
def test_the_threads_of_clients_and_only_these_are_connections(
    instance_of: InstanceOf, name: str, schema: str
) -> None:
    options = {"thread_cache_size": "0", "performance_schema": schema, **BY_CPUS}
    is_default = schema == ("ON" if name in ON_BY_DEFAULT else "OFF")
    if name == "mysql-9.7.4":
        options["innodb_purge_threads"] = "1"
    openers: tuple[Open, ...] = (thread_usage.collector, thread_states.collector)
    with instance_of(name, **options) as instance, loaded(instance):
        if schema == "OFF" and name in BY_FUNCTION:
            check_functions(instance, BY_FUNCTION[name])
        if name == NO_SYMBOLS:
            check_without_symbols(instance, has_names=schema == "ON")
        for clients, tcp in ((1, True), (8, False)) if is_default else ((8, False),):
            # Sessions of other collectors, which must not be taken for clients.
            with contextlib.closing(instance.connect()), contextlib.closing(instance.connect()):
                seen = observed(instance, openers, clients=clients, tcp=tcp, linger_s=3.0, **SHORT)
            # Without a cache, a client's thread ends with its connection.
            of_clients = seen.threads - seen.threads_left
            assert len(of_clients) == clients
            for section in ("threads", "states"):
                listed = seen.document[section]["threads"]
                found = {thread["tid"] for thread in listed if thread["kind"] == "connection"}
                doubtful = [each for each in listed if each["tid"] in found ^ of_clients]
                assert found == of_clients, (section, doubtful)
                main = [thread["tid"] for thread in listed if thread["kind"] == "main"]
                assert main == [instance.pid]
        if is_default:
            check_kept_threads(instance)


def check_functions(instance: Instance, expected: dict[str, int]) -> None:
    """Check the kinds of background threads, known by the functions that they execute."""
    watch = ThreadWatch(target_of(instance))
    watch.sample()
    kinds = watch.kinds()
    watch.close()
    others = ("background", "connection", "observer")  # the collector has a session itself
    found = Counter(kind for kind in kinds.values() if kind not in others)
    assert found == {"main": 1, **expected}


def check_without_symbols(instance: Instance, *, has_names: bool) -> None:
    """Check that a server without names of threads and functions says what would help."""
    watch = ThreadWatch(target_of(instance))
    watch.sample()
    kinds = watch.kinds()
    missing = list(watch.missing(kinds))
    watch.close()
    if has_names:
        assert missing == []
        assert Counter(kinds.values())["page_cleaner"] == 1
    else:
        [lack] = missing
        assert "performance_schema = 1" in str(lack.hint)


def check_kept_threads(instance: Instance) -> None:
    """Check that threads that the server keeps for later do not count as connections."""
    instance.query("SET GLOBAL thread_cache_size = 16")
    sessions = [instance.connect() for _ in range(12)]
    for session in sessions:
        session.close()
    seen = observed(instance, (thread_usage.collector,), clients=8, **SHORT)
    listed = seen.document["threads"]["threads"]
    kinds = [thread["kind"] for thread in listed]
    assert kinds.count("connection") == 8, listed


@pytest.mark.parametrize("schema", ["ON", "OFF"])
def test_pool_workers_are_known_by_function(instance_of: InstanceOf, schema: str) -> None:
    pooled = {
        "thread_handling": "pool-of-threads",
        "thread_pool_size": "3",
        "performance_schema": schema,
    }
    openers: tuple[Open, ...] = (thread_usage.collector, thread_states.collector)
    with instance_of("mariadb-10.11.19", **pooled) as instance, loaded(instance):
        seen = observed(instance, openers, clients=8, **SHORT)
        ((count,),) = instance.query("SELECT @@global.thread_pool_size")
        assert count == "3"
    for section in ("threads", "states"):
        listed = seen.document[section]["threads"]
        kinds = Counter(thread["kind"] for thread in listed)
        # Each group has a working worker, and more where one of them waits.
        assert kinds["pool"] >= 3, listed
        assert kinds["connection"] == 0, listed
    cpu_s = Counter[str]()
    for thread in seen.document["threads"]["threads"]:
        cpu_s[thread["kind"]] += thread["cpu_s"]
    assert cpu_s.most_common(1)[0][0] == "pool"
