"""Test the facts that a trial adds to the records of its servers."""

import pytest

from millrace.errors import TrialFailed
from millrace.trial.outputs import TrialOutputs
from tests.support.stored_records import result


@pytest.fixture
def outputs() -> TrialOutputs:
    (instance,) = result().instances
    return TrialOutputs(instances={"source": instance, "replica": instance})


def test_facts_are_added_to_those_of_one_server_or_of_all(outputs: TrialOutputs) -> None:
    outputs.add_facts("source", residency="cached")
    outputs.add_facts(unsettled=["pages are dirty"])
    source, replica = (outputs.instances[role].facts for role in ("source", "replica"))
    assert (source.residency, source.unsettled) == ("cached", ("pages are dirty",))
    assert (replica.residency, replica.unsettled) == (None, ("pages are dirty",))


def test_an_answer_that_cannot_be_a_fact_fails_the_trial(outputs: TrialOutputs) -> None:
    with pytest.raises(TrialFailed, match="cannot be stored"):
        outputs.add_facts("source", state={"statistics": {"t": {"age_s": 1, "rows": -3}}})
