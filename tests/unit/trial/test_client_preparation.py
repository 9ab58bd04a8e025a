"""Test the facts that a trial adds to the record of its server."""

from __future__ import annotations

import pytest

from millrace.errors import TrialFailed
from millrace.trial.client_preparation import note
from tests.unit.store.stored_records import result


def test_facts_are_added_to_those_that_are_there() -> None:
    instances = list(result().instances)
    note(instances, {"residency": "cached"})
    note(instances, {"unsettled": ["pages are dirty"]})
    assert (instances[-1].facts.residency, instances[-1].facts.unsettled) == (
        "cached",
        ("pages are dirty",),
    )


def test_an_answer_that_cannot_be_a_fact_fails_the_trial() -> None:
    instances = list(result().instances)
    with pytest.raises(TrialFailed) as failure:
        note(instances, {"state": {"statistics": {"t": {"age_s": 1, "rows": -3}}}})
    assert "cannot be stored" in failure.value.message
