"""Test that millrace executes no statement and no setting of a run that another user made."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.app import ablate
from millrace.app.execution import Caller
from millrace.app.explain import ExplainedRun
from millrace.campaign.policies import confirm
from millrace.errors import UserError
from millrace.store.store import Store
from tests.support.explained import explained_study, study_run
from tests.support.history_points import change, history, part_of, run_of
from tests.support.measured import alone
from tests.support.observed_store import keep
from tests.unit.campaign.policies.test_confirm import SPEED


def imported(source: Path, place: Path) -> Path:
    """Return a store of its own with all runs and histories of another."""
    with Store.open(source) as theirs:
        runs = [run.id for run in theirs.list_runs()]
        theirs.export_runs(runs, place / "runs.zip")
    with Store.open(place / "mine.sqlite") as mine:
        mine.import_file(place / "runs.zip")
        assert mine.imported([*runs, "another"]) == set(runs)
    return place / "mine.sqlite"


def test_an_ablation_measures_no_imported_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    monkeypatch.setattr("millrace.servers.install.find", lambda _name: None)
    keep(study_run(), tmp_path / "theirs.sqlite")
    mine = imported(tmp_path / "theirs.sqlite", tmp_path)
    found = ExplainedRun(study_run(), (explained_study(),))
    with pytest.raises(UserError, match="was imported: millrace does not execute statements"):
        ablate.ablate(mine, found, Caller("millrace explain", lambda _event: None))
    with Store.open(mine) as opened:
        assert len(opened.list_runs()) == 1


def test_no_imported_run_confirms_a_change(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.sqlite"
    levels = {39: "mysql-5.7.22", 40: "mysql-8.0.12"}
    for number in levels:
        keep(run_of(f"run-{number}", candidates=("mysql-8.0.12",)), theirs)
    with Store.open(theirs) as own:
        for part in part_of(history([1.0] * 80, series=SPEED)):
            ((series, point),) = part.points
            level = levels.get(int(point.label[1:]), point.level)
            made = ((series, replace(point, level=level, build=None)),)
            own.histories.record(replace(part, points=made))
        assert confirm.planned(own, change(40, series=SPEED), None).experiment.blocks
    with (
        Store.open(imported(theirs, tmp_path)) as mine,
        pytest.raises(UserError, match="no run of this series that was measured here is left"),
    ):
        confirm.planned(mine, change(40, series=SPEED), None)
