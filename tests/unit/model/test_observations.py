"""Test that observations come back from the JSON that they are written as."""

from millrace.model.observations import Observations

STATE = {
    "syscall": None,
    "wchan": None,
    "target": None,
    "count": 2,
    "seconds": 0.5,
    "during_sync": 0,
}


def test_states_keep_the_key_of_their_class() -> None:
    threads = [{"tid": 1, "kind": "client", "states": [{**STATE, "class": "running"}]}]
    document = {"states": {"threads": threads}}
    observed = Observations.model_validate(document)
    assert observed.to_json() == document
    assert Observations.model_validate(observed.to_json()) == observed
