"""Test how long the trials of a run with a limit of time are."""

from pathlib import Path

import pytest

from millrace import paths
from millrace.app.experiments import within_limit
from millrace.campaign.resume import select_run
from millrace.campaign.run_records import begin_run
from millrace.experiment.model import Experiment
from millrace.experiment.read import Overrides
from millrace.host import facts
from millrace.model.host_facts import HostFacts
from millrace.store.records import HostRecord
from millrace.store.store import Store
from tests.support.experiment_files import DRIVEN, read_text

FILE = f"{DRIVEN}time_s = 10\n"


def begin(store: Store, experiment: Experiment) -> None:
    host = HostRecord(facts.host_id(facts.facts(paths.work_dir())), HostFacts())
    selection = select_run(
        store, experiment, host=host, versions={}, command="millrace run", fresh=True
    )
    begin_run(store, selection.run, selection.plan, None)


@pytest.mark.parametrize(("tests", "time_s"), [('"point-query"', 10), ('"scan"', 2.0)])
def test_a_run_keeps_its_trials_and_runs_of_other_treatments_do_not_matter(
    tmp_path: Path, tests: str, time_s: float
) -> None:
    asked = read_text(tmp_path, FILE, overrides=Overrides(max_time_s=60.0))
    with Store.open(tmp_path / "results.sqlite") as store:
        assert within_limit(store, asked).parameters["time_s"] == 2.0
        begin(store, read_text(tmp_path, FILE.replace('"point-query"', tests)))
        assert within_limit(store, asked).parameters["time_s"] == time_s
