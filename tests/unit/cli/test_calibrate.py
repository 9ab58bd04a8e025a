"""Test `millrace calibrate`: what it measures, resumes and prints, and what reports quote of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.analysis.compare.calibration import calibration
from millrace.analysis.compare.compare_run import compare_run
from millrace.app.report import with_calibration
from millrace.cli.main import cli
from millrace.errors import DamagedResult, Interrupted, TrialFailed, UserError
from millrace.experiment.model import Experiment
from millrace.levels import Level
from millrace.report.run.formats import render
from millrace.store.records import StoredRun
from millrace.store.store import Store
from tests.support.builders import keep, study
from tests.support.experiment_files import DRIVEN, SMALL
from tests.support.measured import TRIAL_S, alone, experiment_file, n_runs, newest, noisy
from tests.unit.cli.conftest import Carry


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)


def slowed(levels: Mapping[str, Level], _block: int) -> float:
    """Return the speed: MyISAM is faster; a stopped server is slower by its stopped share."""
    level = str(levels["slowdown"])
    share = float(level[4:-1]) / 100 if level.startswith("cpu=") else 0.0
    return (2000.0 if levels["engine"] == "MyISAM" else 1000.0) * (1 - share)


def run(store: Path, *arguments: str | Path) -> Result:
    given = ["calibrate", *map(str, arguments), "--store", str(store)]
    return CliRunner().invoke(cli, given, catch_exceptions=False)


def test_calibration_reports_verdicts_noise_and_injections(store: Path, carry: Carry) -> None:
    carry(noisy(slowed, 0.01))
    result = run(store, experiment_file(store.parent), "--verdicts", "10", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["schema"] == "millrace.calibration/2"
    assert (document["verdicts"], document["direction"]) == (10, "higher")
    assert document["false_rate_low"] <= 0.05 <= document["false_rate_high"]
    assert [group["label"] for group in document["groups"]] == ["InnoDB", "MyISAM"]
    for group in document["groups"]:
        assert len(group["verdicts"]) == 5
        assert group["noise"]["log_sd"] == pytest.approx(0.014, rel=0.4)
        assert set(group["minimum_detectable"]) == {"5", "8", "10", "20", "40"}
        assert group["block_s"] == 6.0
        (injected,) = group["injected"]
        assert len(injected["verdicts"]) == 1
        assert injected["stopped"] == pytest.approx(float(injected["level"][4:-1]) / 100)
        assert injected["ratio"] == pytest.approx(1 - injected["stopped"], abs=0.03)


def test_terminal_describes_the_calibration(store: Path, carry: Carry) -> None:
    carry(noisy(slowed, 0.002))
    file = experiment_file(store.parent, engines=["InnoDB"])
    result = run(store, file, "--verdicts", "4")
    assert "0 false verdicts of 4 (0 to 60 %)" in result.stdout
    assert "injected a server stopped for" in result.stdout
    assert re.search(": found in [34] blocks, ", result.stdout)
    assert "signs: " in result.stdout


SEVERAL_CLIENTS = DRIVEN.replace("[compare]", "clients = [1, 4]\n[compare]")


@pytest.mark.parametrize(
    ("text", "interleaves"), [(SMALL, True), (f'{SEVERAL_CLIENTS}cache_mode = "cached"\n', False)]
)
def test_sliced_loads_are_calibrated_interleaved_with_a_note(
    text: str, interleaves: bool, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_slices: list[bool] = []

    def measure(_path: Path, calibrated: Experiment, *_others: Any, **_more: Any) -> None:
        in_slices.append(calibrated.slices)
        raise UserError("nothing is measured here")

    monkeypatch.setattr("millrace.app.calibrate.calibrate_by", measure)
    file = tmp_path / "sliced.toml"
    file.write_text(f"blocks = 5\ncollectors = []\n{text}", encoding="utf-8")
    result = CliRunner().invoke(cli, ["calibrate", str(file), "--store", str(store)])
    is_said = "which --slowdown none calibrates" in " ".join(result.output.split())
    assert is_said is interleaves
    assert in_slices == [not interleaves]


def test_the_same_command_goes_on_and_more_verdicts_are_added(store: Path, carry: Carry) -> None:
    stand_in = carry(noisy(slowed, 0.01), ends_after=7)
    file = experiment_file(store.parent)
    with pytest.raises(Interrupted) as stopped:
        run(store, file, "--verdicts", "2")
    assert "the same command" in (stopped.value.hint or "")
    run(store, file, "--verdicts", "2")
    first = newest(store)
    assert len(stand_in.trials) == len(first.trials) == len(first.last_attempts())
    seen = len(stand_in.trials)
    run(store, file, "--verdicts", "2")
    assert len(stand_in.trials) == seen  # everything is measured
    run(store, file, "--verdicts", "4")
    more = newest(store)
    assert more.run.id == first.run.id
    assert len(calibration(more).verdicts) == 4
    assert more.attempts[: len(first.attempts)] == first.attempts
    assert run(store, file, "--verdicts", "4", "--new").exit_code == 0
    assert n_runs(store) == 2


def test_the_time_of_all_trials_is_limited_however_often_it_goes_on(
    store: Path, carry: Carry
) -> None:
    stand_in = carry(noisy(slowed, 0.01))
    file = experiment_file(store.parent)
    assert 4 * TRIAL_S == 12  # per block
    for blocks, limit in ((1, "1s"), (2, "30s"), (2, "35s"), (3, "36s")):
        result = run(store, file, "--max-time", limit)
        assert "a larger --max-time resumes" in result.stderr
        assert len(stand_in.trials) == 4 * blocks
        assert "no verdict yet" in result.stdout
    asked = newest(store).run.spec.calibrates
    assert asked is not None
    assert asked.blocks == 8  # those of the experiment


def test_servers_that_do_not_start_end_it(store: Path, carry: Carry) -> None:
    carry(lambda _levels, _block: None)
    with pytest.raises(TrialFailed, match="trials of InnoDB failed"):
        run(store, experiment_file(store.parent))


def test_too_few_blocks_are_refused_before_anything_is_measured(store: Path, carry: Carry) -> None:
    carry(slowed)
    with pytest.raises(UserError, match="2 blocks cannot give a verdict"):
        run(store, experiment_file(store.parent, blocks=2))
    assert not store.exists()


@pytest.mark.parametrize("slowdown", ["memory", "cpu=3%", "fsync=1", "=1"])
def test_a_slowdown_that_is_none_is_refused(slowdown: str, store: Path) -> None:
    result = run(store, experiment_file(store.parent), "--slowdown", slowdown)
    assert result.exit_code == 2
    assert "is not a slowdown: expected none, cpu, fsync or OPTION=VALUE" in result.output


@pytest.mark.parametrize("time", ["soon", "0s", "5", ""])
def test_a_time_that_is_none_is_refused(time: str, store: Path) -> None:
    result = run(store, experiment_file(store.parent), "--max-time", time)
    assert result.exit_code == 2
    assert "is not a duration" in result.output


def report_text(store: Path, run_of_report: StoredRun, output_format: str) -> str:
    with Store.open(store) as opened:
        return render(with_calibration(opened, compare_run(run_of_report)), output_format)


def test_reports_quote_the_calibration_or_say_that_there_is_none(store: Path, carry: Carry) -> None:
    measured = study()
    keep(measured, store)
    formats = ("terminal", "html", "markdown", "json")
    for output_format in formats:
        without = report_text(store, measured, output_format)
        if output_format == "json":
            assert json.loads(without)["calibration"] is None
        else:
            assert "this host was not calibrated" in " ".join(without.split()), output_format
    carry(noisy(slowed, 0.01))
    run(store, experiment_file(store.parent), "--verdicts", "4", "--slowdown", "none")
    for output_format in formats:
        text = report_text(store, measured, output_format).replace("\u00a0", " ")
        said = "on this host for small: 0 false verdicts of 4"
        assert said in " ".join(text.split()), output_format


def test_report_is_readable_when_the_calibration_is_damaged(
    store: Path, monkeypatch: pytest.MonkeyPatch, carry: Carry
) -> None:
    carry(noisy(slowed, 0.01))
    run(store, experiment_file(store.parent), "--verdicts", "2", "--slowdown", "none")

    def damaged(_store: Store, _run_id: str) -> StoredRun:
        raise DamagedResult("a file was changed")

    monkeypatch.setattr(Store, "load_run", damaged)
    assert "this host was not calibrated" in report_text(store, study(), "markdown")


def test_a_calibration_of_the_experiment_goes_before_a_newer_one_of_another(
    tmp_path: Path, store: Path, carry: Carry
) -> None:
    carry(noisy(slowed, 0.01))
    file = experiment_file(store.parent)
    run(store, file, "--verdicts", "2", "--slowdown", "none")
    own = calibration(newest(store))
    other = tmp_path / "other"
    other.mkdir()
    text = file.read_text(encoding="utf-8").replace('name = "small"', 'name = "other"')
    (other / "other.toml").write_text(text, encoding="utf-8")
    run(store, other / "other.toml", "--verdicts", "2", "--slowdown", "none")
    measured = study()
    ours = replace(measured, run=replace(measured.run, digest=own.target.digest))
    with Store.open(store) as opened:
        (quoted,) = with_calibration(opened, compare_run(ours)).calibrations or ()
    assert (quoted.experiment, quoted.is_of_experiment) == ("small", True)
    assert not quoted.stale


def test_another_kernel_and_many_days_make_it_stale(store: Path, carry: Carry) -> None:
    carry(noisy(slowed, 0.01))
    run(store, experiment_file(store.parent), "--verdicts", "2", "--slowdown", "none")
    measured = study()
    facts = measured.run.host.facts.replace(kernel={"release": "6.18"})
    later = replace(
        measured.run,
        created_utc="2026-02-05T10:00:00Z",
        host=replace(measured.run.host, facts=facts),
    )
    text = report_text(store, replace(measured, run=later), "markdown")
    assert "kernel release was 6.1.0-18-amd64 and is 6.18" in text
    assert "30 days apart" in text
    assert "millrace calibrate FILE" in text
