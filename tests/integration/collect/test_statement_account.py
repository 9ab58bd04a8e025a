"""Test the time breakdown of each statement, of clients driven on real servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.statement_breakdown import StatementBreakdown, statement_breakdowns
from millrace.collect import sched_waits, thread_states, thread_usage
from millrace.collect.threads import thread_sampler
from millrace.servers.instances.instance import Instance
from millrace.trial import measurements
from tests.conftest import InstanceOf
from tests.integration.collect.driven import loaded, observed
from tests.traced import needs_tracing
from tests.unit.analysis.observations import attempt, seen

# The test compares shares of times, so nobody else may need the CPUs; and commits wait for a disk.
pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.disk, needs_tracing]

SERVERS = ("mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19")
COLLECTORS = (thread_usage.collector, sched_waits.collector, thread_states.collector)
STATEMENTS = ["BEGIN", "select", "update", "COMMIT"]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, instance_of: InstanceOf) -> Iterator[Instance]:
    durable = {"innodb_flush_log_at_trx_commit": "1", "loose_skip_log_bin": None}
    with instance_of(request.param, **durable) as instance, loaded(instance):
        yield instance


@pytest.fixture(autouse=True)
def frequent_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make as many windows of scheduler events, and samples, in 1.5 s as usual in 3 s."""
    monkeypatch.setattr(sched_waits, "_FIRST_GAP_S", 0.1)
    monkeypatch.setattr(thread_sampler, "budget", lambda _connections: 0.02)


def accounts(
    instance: Instance, *, clients: int, **chosen: Any
) -> Mapping[str, StatementBreakdown]:
    """Return the breakdowns of transactions of a SELECT and an UPDATE."""
    driven = observed(instance, COLLECTORS, clients=clients, test="pair", time_s=1.5, **chosen)
    assert [lack for lack in driven.document["missing"] if "statement" in lack["what"]] == []
    assert driven.document["states"]["statements"]["threads"] == clients
    values = {each.name: each.value for each in measurements.measurements(driven.result)}
    document = {"version": 1, "window_s": driven.window_s, **driven.document}
    made = attempt(values, document, measurements.histograms(driven.result))
    trial = ObservedTrial("trial", 0, made, seen(made, clients))
    found = {each.name: each for each in statement_breakdowns([trial])}
    assert sorted(found) == sorted(STATEMENTS)
    return found


@pytest.mark.parametrize("tcp", [False, True])
def test_the_parts_of_a_statement_are_its_latency(server: Instance, tcp: bool) -> None:
    for name, found in accounts(server, clients=4, tcp=tcp).items():
        (trial,) = found.trials
        left = trial.left([part.key for part in found.parts])
        assert abs(left.us) < 5 * left.error_us + 0.15 * trial.latency_us, name
        assert found.times == pytest.approx(1, rel=0.01)


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
