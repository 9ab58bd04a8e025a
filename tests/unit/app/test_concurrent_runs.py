"""Test `--concurrent` from the calibration to the report, with simulated trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millrace.analysis.compare import applicable_calibration
from millrace.cli.main import cli
from millrace.errors import UserError
from millrace.levels import Level
from millrace.store.records import AttemptResult, MeasurementRecord, StepRecord, StoredRun
from millrace.store.store import Store
from tests.unit.campaign import measured
from tests.unit.campaign.measured import alone, carried, noisy
from tests.unit.experiment.test_concurrent_pairs import FILE

CALIBRATED = ("--verdicts", "20", "--slowdown", "none", "--blocks", "3")


def result_of(speed: float | None, _stopped: float | None = None) -> AttemptResult:
    assert speed is not None
    figures = {"transactions": speed * 3.0, "measure_duration_s": 3.0, "errors": 0.0}
    return AttemptResult(
        "finished",
        steps=(StepRecord(0, "measure", 0.0, 3.0, "finished"),),
        measurements=tuple(MeasurementRecord(*each) for each in figures.items()),
    )


@pytest.fixture(autouse=True)
def _without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    monkeypatch.setattr(measured, "result_of", result_of)
    # All trials of the stand-in have the same date.
    monkeypatch.setattr(applicable_calibration, "MOST_DAYS", 100_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "beside.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def speed(levels: Mapping[str, Level], _block: int) -> float:
    return 900.0 if levels["server"] == "mysql-5.7.22" else 1000.0


def command(name: str, file: Path, *arguments: str) -> Result:
    store = file.with_name("results.sqlite")
    given = [name, str(file), *arguments, "--store", str(store)]
    return CliRunner().invoke(cli, given, catch_exceptions=False)


def stored_runs(file: Path) -> list[StoredRun]:
    with Store.open(file.with_name("results.sqlite"), read_only=True) as opened:
        return [opened.load_run(each.id) for each in opened.list_runs()]


def report(file: Path, run_id: str) -> str:
    store = file.with_name("results.sqlite")
    given = ["report", run_id, "--store", str(store), "--format", "json"]
    return CliRunner().invoke(cli, given, catch_exceptions=False).stdout


def refused(file: Path, *arguments: str) -> UserError:
    with pytest.raises(UserError) as found:
        command("run", file, "--blocks", "3", *arguments)
    return found.value


def test_a_run_wants_a_calibration_of_its_own_kind(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch, noisy(speed, 0.005))
    never = refused(file)
    assert "never measured beside itself" in never.message
    assert f"millrace calibrate {file} --concurrent" in str(never.hint)
    # Calibrations measured in turns do not count.
    assert command("calibrate", file, "--interleaved", *CALIBRATED).exit_code == 0
    assert "never measured beside itself" in refused(file).message
    assert command("calibrate", file, *CALIBRATED, "--verdicts", "4").exit_code == 0
    assert "has 4 of the 20 verdicts" in refused(file).message
    assert command("calibrate", file, *CALIBRATED).exit_code == 0
    opened = command("run", file, "--blocks", "3")
    assert opened.exit_code == 0
    assert "side by side, 3 blocks" in opened.output
    assert "calibrated side by side " in opened.output
    document = json.loads(report(file, stored_runs(file)[0].run.id))
    assert document["design"]["concurrent"] is True
    assert document["calibration"]["sentence"].startswith("calibrated side by side ")
    # An interleaved run is another run, and quotes the other calibration.
    in_turns = command("run", file, "--blocks", "3", "--interleaved")
    assert in_turns.exit_code == 0
    assert "side by side" not in in_turns.output
    runs = [each for each in stored_runs(file) if each.run.spec.calibrates is None]
    assert len({each.run.digest for each in runs}) == 2
    assert {each.run.design.concurrent for each in runs} == {False, True}


def test_a_host_whose_sides_disturb_each_other_stays_shut(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = carried(monkeypatch, noisy(speed, 0.005))

    def disturbed(_levels: Mapping[str, Level], _block: int) -> float:
        return 900.0 if stand_in.trials[-1][1]["slowdown"] == "again" else 1000.0

    stand_in.speed = noisy(disturbed, 0.005)
    assert command("calibrate", file, *CALIBRATED).exit_code == 0
    assert "the two sides disturb each other" in refused(file).message
