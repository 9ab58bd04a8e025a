"""Test one trial on a real server, step by step."""

from collections.abc import Mapping
from typing import Any

import pytest

from millrace import workloads
from millrace.loadgen import datasets
from millrace.model.events import StepBegan, TrialEvent
from millrace.model.servers import FittedOptions
from millrace.trial.execute import execute_trial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import ServerOf

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

ROWS = 2_000


def given(server_of: ServerOf, definition: Mapping[str, Any]) -> TrialSpec:
    return TrialSpec(
        name="test/1",
        servers=(ServerSpec(server_of("mysql-5.6.24"), FittedOptions("default", ())),),
        workload=ResolvedWorkload(definition, {"rows": ROWS, "data_seed": 1}),
        expected=datasets.data_checksum("nodes", ROWS, 1),
    )


def spoiled(sql: str) -> dict[str, Any]:
    """Return the load-data workload with a change to the table before it is verified."""
    definition = dict(workloads.load("load-data"))
    phases = [dict(phase) for phase in definition["phases"]]
    phases.insert(3, {"name": "spoil", "kind": "sql", "sql": sql})
    return {**definition, "phases": phases}


def test_what_is_dirty_is_written_back_right_before_the_measurement(server_of: ServerOf) -> None:
    announced: list[str] = []

    def announce(event: TrialEvent) -> None:
        if isinstance(event, StepBegan):
            announced.append(event.name)

    result = execute_trial(given(server_of, workloads.load("load-data")), announce)
    assert result.outcome == "finished", result.reason
    assert announced[announced.index("measure") - 1] == "settle"
    assert announced.index("settle") > announced.index("start")
    [(kind, _, log)] = result.artefacts
    assert kind == "error_log"
    assert b"ready for connections" in log


@pytest.mark.parametrize(
    ("sql", "step"),
    [
        ("DELETE FROM nodes LIMIT 1", "count"),
        ("UPDATE nodes SET user = concat(user, ' ') LIMIT 1", "verify"),
        ("UPDATE nodes SET lat = lat + 0.0000001 LIMIT 1", "verify"),
        ("UPDATE nodes SET timestamp = timestamp + interval 1 second LIMIT 1", "verify"),
    ],
)
def test_a_table_that_lost_or_changed_a_row_is_no_result(
    server_of: ServerOf, sql: str, step: str
) -> None:
    result = execute_trial(given(server_of, spoiled(sql)), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", step), result.reason
    assert not any(each.name == "load_duration_s" for each in result.measurements)
    assert [kind for kind, _, _ in result.artefacts] == ["error_log"]
