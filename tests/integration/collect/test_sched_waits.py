"""Test the scheduler's events of threads that serve clients, on real servers."""

import os
from collections.abc import Iterator

import pytest

from millrace.collect import sched_waits, thread_states, thread_usage
from millrace.host import tracing
from millrace.host.tracing import Tracing
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf
from tests.support.driven import QUIET_LINGER_S, loaded, observed
from tests.traced import needs_tracing

pytestmark = [pytest.mark.integration, needs_tracing]

# In the order of the registry.
COLLECTORS = (thread_usage.collector, sched_waits.collector, thread_states.collector)


@pytest.fixture(scope="module", params=["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def server(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    with instance_of(request.param) as instance, loaded(instance):
        yield instance


@pytest.mark.quiet
def test_as_many_waits_as_the_kernel_counts(
    server: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of four clients on two tables leave their CPUs as often in windows as elsewhere.

    This requires that nobody else uses the CPUs in most of these few hundredths of a second.
    """
    time_s = 2.0
    monkeypatch.setattr(sched_waits, "_FIRST_GAP_S", 0.1)  # as many windows as in 6 s
    document = observed(
        server, COLLECTORS, clients=4, linger_s=QUIET_LINGER_S, test="pair", time_s=time_s
    ).document
    assert [lack for lack in document["missing"] if lack.get("observer") == "switches"] == []
    found = document["switches"]
    assert found["windows"] >= 3
    assert found["seconds"] >= 0.01 * (found["windows"] - 1)  # the end may truncate the last one
    assert len(found["threads"]) == 4
    serving = {each["tid"]: each for each in document["threads"]["threads"]}
    assert {each["tid"] for each in found["threads"]} <= serving.keys()
    assert {serving[each["tid"]]["kind"] for each in found["threads"]} == {"connection"}
    waits = [wait for thread in found["threads"] for wait in thread["waits"]]
    counted = sum(wait["count"] for wait in waits)
    left = sum(serving[each["tid"]]["voluntary_switches"] for each in found["threads"])
    in_windows = left * found["seconds"] / time_s
    assert 0.5 * in_windows < counted < 2 * in_windows
    assert sum(wait["seconds"] for wait in waits) < 4 * found["seconds"]
    assert "other" in {wait["woken_by"] for wait in waits}  # the clients
    with tracing.opened_tracefs() as place:
        left = [each.name for each in (place / "instances").iterdir()]
    assert [name for name in left if name.startswith(f"millrace-{os.getpid()}-")] == []


def test_events_of_the_kernel_are_read(server: Instance) -> None:
    """Without a choice of threads, the events of all threads are read."""
    tracing = Tracing(("sched_switch",))
    try:
        tracing.start()
        server.query("SELECT 1")
        tracing.stop()
        assert "sched_switch: prev_comm=" in tracing.text()
        assert tracing.lost() == 0
    finally:
        tracing.close()
