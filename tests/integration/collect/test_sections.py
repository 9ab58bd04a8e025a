"""Compare the sections that collectors record of real servers under a short load.

The time breakdown of each statement, which is made of them, is tested on the same servers.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.statement_breakdown import StatementBreakdown, statement_breakdowns
from millrace.collect import disk, host, sched_waits, thread_states, thread_usage
from millrace.loadgen import cpu_idle
from millrace.servers.instances.instance import Instance
from millrace.store import observations
from millrace.trial import measurements
from tests.conftest import InstanceOf
from tests.support.driven import QUIET_LINGER_S, Observed, loaded, observed
from tests.support.observed_trials import attempt
from tests.support.observed_trials import seen as seen_by
from tests.traced import needs_tracing

# The test compares shares of times, so nobody else may need the CPUs; and writes reach a disk.
pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.disk]

SERVERS = ("mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19")
CLIENTS = 4
# At a trial's rate, two seconds have so few looks that they may miss rare states.
BUDGET = 0.05
ALL = (host.collector, disk.collector, thread_usage.collector, thread_states.collector)
TRACED = (thread_usage.collector, sched_waits.collector, thread_states.collector)
STATEMENTS = ["BEGIN", "select", "update", "COMMIT"]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    durable = {
        "innodb_flush_log_at_trx_commit": "1",
        "loose_skip_log_bin": None,
        "performance_schema": "ON",
    }
    with instance_of(request.param, **durable) as instance, loaded(instance):
        yield instance


@pytest.fixture(scope="module")
def seen(server: Instance) -> Observed:
    """Run transactions that each make a log durable, with pollers as in a trial of few clients."""
    with pytest.MonkeyPatch.context() as patch, cpu_idle.disable_idle_states():
        patch.setattr(thread_states, "budget", lambda _connections: BUDGET)
        return observed(
            server, ALL, clients=CLIENTS, linger_s=QUIET_LINGER_S, test="pair", time_s=2.0
        )


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


def accounts(
    instance: Instance, *, clients: int, **chosen: Any
) -> Mapping[str, StatementBreakdown]:
    """Return the breakdowns of transactions of a SELECT and an UPDATE."""
    with pytest.MonkeyPatch.context() as patch:
        # As many windows of scheduler events, and samples, in 1.5 s as usual in 3 s.
        patch.setattr(sched_waits, "_FIRST_GAP_S", 0.1)
        patch.setattr(thread_states, "budget", lambda _connections: 0.02)
        driven = observed(
            instance, TRACED,
            clients=clients, linger_s=QUIET_LINGER_S, test="pair", time_s=1.5, **chosen,
        )  # fmt: skip
    assert [lack for lack in driven.document["missing"] if "statement" in lack["what"]] == []
    assert driven.document["states"]["statements"]["threads"] == clients
    values = {each.name: each.value for each in measurements.measurements(driven.result)}
    document = {"window_s": driven.window_s, **driven.document}
    made = attempt(values, document, measurements.histograms(driven.result))
    trial = ObservedTrial("trial", 0, made, seen_by(made, clients))
    found = {each.name: each for each in statement_breakdowns([trial])}
    assert sorted(found) == sorted(STATEMENTS)
    return found


@needs_tracing
@pytest.mark.parametrize("tcp", [False, True])
def test_the_parts_of_a_statement_are_its_latency(server: Instance, tcp: bool) -> None:
    for name, found in accounts(server, clients=4, tcp=tcp).items():
        (trial,) = found.trials
        left = trial.left([part.key for part in found.parts])
        assert abs(left.us) < 5 * left.error_us + 0.15 * trial.latency_us, name
        assert found.times == pytest.approx(1, rel=0.01)


@needs_tracing
def test_a_row_that_everybody_changes_is_waited_for_in_its_update_alone(server: Instance) -> None:
    found = accounts(server, clients=16, tables=1, table_size=1)
    parts = {
        name: {part.key: part.us.mean for part in account.parts} for name, account in found.items()
    }
    update, select = parts["update"], parts["select"]
    assert max(update, key=lambda key: update[key]) == "lock"
    assert update["lock"] > 0.5 * found["update"].latency.mean
    assert select["lock"] < 0.5 * found["select"].latency.mean
    assert select["lock"] < 0.1 * update["lock"]


def count(thread: dict[str, Any], state_class: str) -> int:
    return sum(state["count"] for state in thread["states"] if state["class"] == state_class)


def seconds(thread: dict[str, Any], state_class: str) -> float:
    return float(sum(s["seconds"] for s in thread["states"] if s["class"] == state_class))
