"""Compare the sections that collectors record of real servers under a short load."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from millrace.collect import disk, host, thread_states, thread_usage
from millrace.collect.threads import thread_sampler
from millrace.loadgen import cpu_idle
from millrace.store import observations
from tests.conftest import InstanceOf
from tests.integration.collect.driven import Observed, loaded, observed

# The test compares shares of times, so nobody else may need the CPUs; and writes reach a disk.
pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.disk]

SERVERS = ("mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19")
CLIENTS = 4
# At a trial's rate, two seconds have so few looks that they may miss rare states.
BUDGET = 0.05
ALL = (host.collector, disk.collector, thread_usage.collector, thread_states.collector)


@pytest.fixture(scope="module", params=SERVERS)
def seen(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Observed]:
    """Run transactions that each make a log durable, with pollers as in a trial of few clients."""
    durable = {
        "innodb_flush_log_at_trx_commit": "1",
        "loose_skip_log_bin": None,
        "performance_schema": "ON",
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        instance_of(request.param, **durable) as instance,
        loaded(instance),
        cpu_idle.disable_idle_states(),
    ):
        patch.setattr(thread_sampler, "budget", lambda _connections: BUDGET)
        yield observed(instance, ALL, clients=CLIENTS, test="pair", time_s=2.0)


def of_kind(seen: Observed, section: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in seen.document[section]["threads"] if each["kind"] == kind]


def test_nothing_is_missing_and_all_is_json(seen: Observed) -> None:
    # Servers end threads that they no longer need.
    ended = [each for each in seen.document["missing"] if "threads ended" in each["what"]]
    assert seen.document["missing"] == ended
    assert json.loads(json.dumps(seen.document)) == seen.document
    assert observations.readable(seen.document) == seen.document
    assert seen.transactions > 0


def test_threads_add_up_to_their_process(seen: Observed) -> None:
    section = seen.document["threads"]
    process = section["process"]
    total_s = sum(thread["cpu_s"] for thread in section["threads"])
    assert total_s == pytest.approx(process["cpu_s"], rel=0.1, abs=0.05)
    assert all(value is None or value >= 0 for value in process.values())
    clients = of_kind(seen, "threads", "connection")
    assert len(clients) == CLIENTS
    for thread in clients:
        assert 0 < thread["cpu_s"] < seen.window_s * 1.2
        assert 0 <= thread["runnable_s"] < seen.window_s * 1.2
        assert thread["user_s"] + thread["system_s"] == pytest.approx(thread["cpu_s"])
        # Each waits for its client, and for its log, at least once a transaction.
        assert thread["voluntary_switches"] > 0
        assert thread["minor_faults"] >= 0


def test_states_agree_with_clocks(seen: Observed) -> None:
    """Samples and clocks agree on the time of running and of waiting for a CPU."""
    section = seen.document["states"]
    clocks = {thread["tid"]: thread for thread in of_kind(seen, "threads", "connection")}
    sampled = of_kind(seen, "states", "connection")
    assert {thread["tid"] for thread in sampled} == set(clocks)
    told_s = sum(state["seconds"] for thread in sampled for state in thread["states"])
    assert told_s == pytest.approx(CLIENTS * seen.window_s, rel=0.1)
    running_s = sum(seconds(thread, "running") for thread in sampled)
    busy_s = sum(thread["cpu_s"] + thread["runnable_s"] for thread in clocks.values())
    assert running_s / told_s == pytest.approx(busy_s / seen.window_s / CLIENTS, abs=0.15)
    assert section["ticks"] > 20
    assert 0 < section["cpu_s"] < 0.1 * seen.window_s
    for thread in section["threads"]:
        assert sum(state["count"] for state in thread["states"]) == thread["ticks"]


def test_somebody_makes_the_log_durable(seen: Observed) -> None:
    everybody = seen.document["states"]["threads"]
    flushes = [
        state for thread in everybody for state in thread["states"] if state["class"] == "log_flush"
    ]
    assert flushes
    assert {state["target"] for state in flushes} == {"redo log"}
    # Clients wait for their log meanwhile, whichever thread writes it.
    clients = of_kind(seen, "states", "connection")
    waited = sum(
        state["count"] if state["class"] == "log_flush" else state["during_sync"]
        for thread in clients
        for state in thread["states"]
    )
    assert waited > 0
    assert any(count(thread, "network") for thread in clients)


def test_what_the_server_wrote_went_to_the_disk(seen: Observed) -> None:
    if "disk" not in seen.document:
        pytest.skip("the data directory is on no disk")
    section = seen.document["disk"]
    assert section["writes"] > 0
    assert section["write_bytes"] > 0
    assert section["flushes"] is None or section["flushes"] > 0
    process = seen.document["threads"]["process"]
    assert process["write_bytes"] > 0


def test_neither_server_nor_load_generator_nor_pollers_are_others(seen: Observed) -> None:
    section = seen.document["host"]
    assert seen.ours.isdisjoint(other["pid"] for other in section["others"])
    cpus = os.cpu_count() or 1
    told_s = sum(section["cpu"].values())
    assert told_s == pytest.approx(seen.window_s * cpus, rel=0.15)
    # The server's own time would exceed all that is left.
    server_s = seen.document["threads"]["process"]["cpu_s"]
    assert section["other_cpu_s"] <= told_s - section["cpu"]["idle_s"] - server_s + 0.2


def count(thread: dict[str, Any], state_class: str) -> int:
    return sum(state["count"] for state in thread["states"] if state["class"] == state_class)


def seconds(thread: dict[str, Any], state_class: str) -> float:
    return float(sum(s["seconds"] for s in thread["states"] if s["class"] == state_class))
