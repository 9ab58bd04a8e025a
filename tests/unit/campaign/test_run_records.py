"""The specification that a run is stored with."""

import json

from millrace import workloads
from millrace.campaign.run_records import experiment_spec
from tests.support.experiment_files import SMALL, parsed


def test_a_stored_workload_is_a_definition_again() -> None:
    spec = experiment_spec(parsed(SMALL)).to_json()
    assert json.loads(json.dumps(spec)) == spec
    assert workloads.parse_workload(spec["workload"]).name == "load-data"
