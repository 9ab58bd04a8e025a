"""Test the state that real servers report at both ends of a measured part."""

from collections.abc import Mapping
from typing import Any

import pytest

from millrace import databases
from millrace.analysis.steady.steadiness import SteadyCheck, steady_checks
from millrace.model.instance_facts import ServerStateFact
from millrace.store.records import AttemptResult
from millrace.trial.execute import execute_trial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import ServerOf
from tests.servers import quick_options
from tests.support.small_workload import driving

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_snapshots", "initialised_once")]

SERVERS = [
    "mysql-5.5.34",
    "mysql-5.6.24",
    "mysql-8.0.33",
    "mysql-9.7.4",
    "mariadb-10.1.23",
    "mariadb-10.11.19",
    "mariadb-11.8.9",
]


def trial(server_of: ServerOf, name: str, *, warmed: bool, **chosen: Any) -> AttemptResult:
    """Run a second of reads or writes of 100,000 rows, or half of one where they are preloaded.

    The check of a restored snapshot reads some hundred of their pages. Paced clients read a part of
    the pages, and leave the CPUs to other tests.
    """
    phases = [each for each in driving()["phases"] if warmed or each["kind"] != "warm_tables"]
    quick = {"table_size": 50_000, "time_s": 0.5 if warmed else 1.0, "warmup_s": 0.0}
    paced = {"clients": 2, "rate": 1_000.0}
    given = TrialSpec(
        name="test/1",
        servers=(ServerSpec(server_of(name), quick_options(name)),),
        workload=ResolvedWorkload(driving(phases=phases), {**quick, **paced, **chosen}),
        stops_cleanly=False,
    )
    result = execute_trial(given, lambda _event: None)
    assert result.outcome == "finished", result.reason
    return result


def figures_of(state: Mapping[str, object] | None) -> dict[str, float]:
    return {name: value for name, value in (state or {}).items() if isinstance(value, int | float)}


def gates_of(result: AttemptResult) -> dict[str, SteadyCheck]:
    measured = {each.name: each.value for each in result.measurements}
    [instance] = result.instances
    found = steady_checks(
        instance.facts.state or ServerStateFact(),
        databases.get(instance.server.family).storage.limits(instance.effective),
        transactions=measured["transactions"],
        rows_changed=measured["rows_affected"],
    )
    return {each.name: each for each in found}


@pytest.mark.parametrize("name", SERVERS)
def test_a_buffer_pool_that_was_cold_fails_its_gate_and_a_warm_one_does_not(
    server_of: ServerOf, name: str
) -> None:
    """Test with writes too that every version reports what it still has to write and purge."""
    writing = trial(server_of, name, warmed=False, test="pair")
    cold, warm = gates_of(writing), gates_of(trial(server_of, name, warmed=True))
    assert cold["buffer pool"].result == "failed", cold["buffer pool"].figures
    assert {each.result for each in warm.values()} <= {"passed", "unknown"}
    assert warm["buffer pool"].result == "passed"

    state = writing.instances[0].facts.state
    assert state is not None
    begin, end = (figures_of(each) for each in (state.begin, state.end))
    assert begin["log_position"] < end["log_position"]
    assert begin["checkpoint"] <= end["checkpoint"] <= end["log_position"]
    assert 0 < end["dirty_pages"] <= end["pool_pages"]
    assert (state.since_begin_s or 0) > 0
    unknown = {gate.name for gate in cold.values() if gate.result == "unknown"}
    assert unknown == ({"statistics"} if name.startswith("mysql-5.5") else set())
