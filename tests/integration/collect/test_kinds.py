"""Test which threads of a real server serve clients, on every kind of server."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

from millrace.collect import thread_states, thread_usage
from tests.conftest import InstanceOf
from tests.integration.collect.driven import Open, loaded, observed

pytestmark = pytest.mark.integration

SERVERS = (
    "mysql-5.5.34",
    "mysql-5.6.24",
    "mysql-5.7.22",
    "mysql-8.0.33",
    "mysql-9.7.4",
    "mariadb-10.1.23",
    "mariadb-10.11.19",
    "mariadb-11.8.9",
)


@pytest.mark.quiet
@pytest.mark.parametrize("schema", ["ON", "OFF"])
@pytest.mark.parametrize("name", SERVERS)
def test_the_threads_of_clients_and_only_these_are_connections(
    instance_of: InstanceOf, name: str, schema: str
) -> None:
    options = {"thread_cache_size": "0", "performance_schema": schema}
    openers: tuple[Open, ...] = (thread_usage.collector, thread_states.collector)
    with instance_of(name, **options) as instance, loaded(instance):
        for clients, tcp in ((1, True), (8, False)):
            # Sessions of other collectors, which must not be taken for clients.
            with contextlib.closing(instance.connect()), contextlib.closing(instance.connect()):
                seen = observed(instance, openers, clients=clients, tcp=tcp)
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


@pytest.mark.parametrize("name", SERVERS)
def test_threads_that_are_kept_for_connections_to_come_are_none(
    instance_of: InstanceOf, name: str
) -> None:
    with instance_of(name, thread_cache_size="16") as instance, loaded(instance):
        sessions = [instance.connect() for _ in range(12)]
        for session in sessions:
            session.close()
        for clients in (1, 8):
            seen = observed(instance, (thread_usage.collector,), clients=clients)
            listed = seen.document["threads"]["threads"]
            kinds = [thread["kind"] for thread in listed]
            assert kinds.count("connection") == clients, listed


@pytest.mark.parametrize("schema", ["ON", "OFF"])
def test_workers_of_a_pool_are_known_whatever_the_process_list_says(
    instance_of: InstanceOf, schema: str
) -> None:
    pooled = {
        "thread_handling": "pool-of-threads",
        "thread_pool_size": "3",
        "performance_schema": schema,
    }
    openers: tuple[Open, ...] = (thread_usage.collector, thread_states.collector)
    with instance_of("mariadb-10.11.19", **pooled) as instance, loaded(instance):
        seen = observed(instance, openers, clients=8)
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
