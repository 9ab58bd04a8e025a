"""Test the figures of a treatment's attempts."""

from dataclasses import replace

import pytest

from millrace.analysis.compare.treatments import repeated_s, trial_s
from millrace.store.records import StepRecord, StoredAttempt
from tests.support.query_runs import QueryRun

MADE = (("prepare", 1.0), ("make", 80.0), ("stop", 4.0), ("save", 5.0))
AGED = (("restore", 1.0), ("start", 1.0), ("l.x", 7.0), ("stop", 1.0), ("save", 2.0))
MEASURED = (("restore", 2.0), ("start", 3.0), ("measure", 10.0), ("stop", 1.0))


def attempt(*steps: tuple[str, float]) -> StoredAttempt:
    stored = QueryRun(("mysql-5.6.24",), ("point-query",), (1,), 1).build()
    records, began_s = [], 0.0
    for position, (name, duration_s) in enumerate(steps):
        records.append(StepRecord(position, name, began_s, duration_s, "finished"))
        began_s += duration_s
    return replace(stored.attempts[0], steps=tuple(records))


@pytest.mark.parametrize("making", [MADE, (*MADE, *AGED)])
def test_another_attempt_restores_what_the_first_one_made(
    making: tuple[tuple[str, float], ...],
) -> None:
    assert repeated_s(attempt(*making, *MEASURED)) == 16.0
    of_roles = [(f"replica: {name}", duration_s) for name, duration_s in (*making, *MEASURED)]
    assert repeated_s(attempt(*of_roles)) == 16.0


def test_each_server_of_a_trial_made_its_own_snapshot() -> None:
    source = [(f"source: {name}", duration_s) for name, duration_s in (*MADE, *MEASURED[:2])]
    refused = [(f"source: {name}", duration_s) for name, duration_s in (*MADE, ("start", 1.0))]
    replica = [("replica: restore", 2.0), ("replica: start", 3.0), ("measure", 10.0)]
    assert repeated_s(attempt(*source, *replica)) == 20.0
    assert repeated_s(attempt(*refused, *replica)) == 106.0


@pytest.mark.parametrize("steps", [MEASURED, MADE, (("measure", 3.0),), ()])
def test_an_attempt_that_restores_nothing_that_it_made_takes_its_time_again(
    steps: tuple[tuple[str, float], ...],
) -> None:
    assert repeated_s(attempt(*steps)) == trial_s(attempt(*steps)) == sum(s for _, s in steps)
