"""Test that statements that miss their rows do not fail the trial, whatever the speed."""

from typing import Any

import pytest

from millrace.levels import Level
from millrace.model.servers import FittedOptions
from millrace.store.records import AttemptResult
from millrace.trial.execute import execute_trial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import ServerOf
from tests.support.small_workload import driving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("own_snapshots", "initialised_once", "settled_soon"),
]


def trial(server_of: ServerOf, test: str, *, after_load: list[str]) -> AttemptResult:
    """Run half a second of a test that does not check the rows after loading."""
    definition = driving()
    tables: dict[str, Any] = {
        "sbtest": {**definition["tables"]["sbtest"], "after_load": after_load}
    }
    phases = [each for each in definition["phases"] if each["kind"] != "verify_tables"]
    quick: dict[str, Level] = {
        "test": test,
        "table_size": 2_000,
        "time_s": 0.5,
        "warmup_s": 0.0,
        "clients": 1,
    }
    given = TrialSpec(
        name="test/1",
        servers=(ServerSpec(server_of("mariadb-10.11.19"), FittedOptions("default", ())),),
        workload=ResolvedWorkload(driving(tables=tables, phases=phases), quick),
    )
    return execute_trial(given, lambda _event: None)


@pytest.mark.parametrize("test", ["point", "pair"])
def test_a_table_that_lost_its_rows_fails_the_trial(server_of: ServerOf, test: str) -> None:
    whole = trial(server_of, test, after_load=[])
    assert whole.outcome == "finished", whole.reason
    lost = trial(server_of, test, after_load=["DELETE FROM {table}"])
    assert (lost.outcome, lost.failed_step) == ("failed", "verify_rows")
    assert "no row" in (lost.reason or "")
