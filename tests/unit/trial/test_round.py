"""Test what makes a round not count."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from millrace.model import measurements as names
from millrace.trial.group import GroupTrial
from millrace.trial.outputs import TrialOutputs
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.round import _read_alike, _Side
from millrace.trial.spec import TrialSpec
from millrace.trial.trial_server import TrialContext
from tests.unit.workloads.small import driving


def side(test: str, read_bytes: float, *, time_s: float = 4.0) -> _Side:
    spec = TrialSpec(
        name="test/0",
        servers=(),
        workload=ResolvedWorkload(driving(), {"test": test, "time_s": time_s}),
    )
    outputs = TrialOutputs()
    outputs.add_measurement(names.SERVER_READ_BYTES, read_bytes)
    trial = GroupTrial(spec, "mysql-8.0.33", lambda _event: None)
    return _Side(trial, TrialContext(spec, outputs, ExitStack(), trial.emit))


@pytest.mark.parametrize(
    ("test", "read", "counts"),
    [
        ("pair", (600_000, 100_000), False),
        ("pair", (600_000, 400_000), True),
        ("pair", (400_000, 0), True),
        ("point", (9_000_000, 0), True),  # clients that read have the bound of the buffer pool
    ],
)
def test_clients_that_write_wait_alike_for_the_disk(
    test: str, read: tuple[float, float], counts: bool
) -> None:
    sides = [side(test, each) for each in read]
    assert _read_alike(sides) is counts
    assert (sides[0].cause is None) is counts
    assert sides[1].cause is None


def test_longer_rounds_may_read_more() -> None:
    sides = [side("pair", each, time_s=8.0) for each in (900_000, 100_000)]
    assert _read_alike(sides)
    sides = [side("pair", each, time_s=8.0) for each in (1_100_000, 100_000)]
    assert not _read_alike(sides)
