"""Test which part of a trial collectors observe."""

import pytest

from millrace import workloads
from millrace.collect.collectors import Window
from millrace.trial.collection import until_measured, window
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.small_workload import driving


@pytest.mark.parametrize(
    ("name", "observed", "repeated"),
    [
        ("load-data", Window("load", "finish", drives=False), ["create", "load", "finish"]),
        ("insert-methods", Window("load", "load", drives=False), ["load"]),
    ],
)
def test_a_load_is_observed_and_repeated_without_what_only_looks_at_it(
    name: str, observed: Window, repeated: list[str]
) -> None:
    work = ResolvedWorkload(workloads.load(name), {"rows": 1_000})
    assert window(work) == observed
    assert [phase.name for phase in until_measured(work)] == repeated


def test_clients_are_observed_between_their_marks() -> None:
    assert window(ResolvedWorkload(driving(), {})) == Window("measure", "measure", drives=True)
