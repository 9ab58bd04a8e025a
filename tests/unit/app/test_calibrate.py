"""Test which servers `calibrate` refuses to slow down, before anything is measured."""

from pathlib import Path
from typing import Any

import pytest

from millrace.app import calibrate as use_case
from millrace.app.execution import Caller
from millrace.errors import UserError
from tests.support.laboratory import attach_a_server, plan_of
from tests.unit.campaign.test_preparation import ATTACHED
from tests.unit.campaign.test_requirements import of_pair as pair


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of calibrations that would have begun to measure."""
    names: list[str] = []

    def measure(_path: Path, experiment: Any, *_others: Any, **_more: Any) -> None:
        names.append(experiment.name)

    monkeypatch.setattr(use_case, "calibrate_by", measure)
    return names


def calibrate(directory: Path, text: str, injected: str | None) -> None:
    experiment = plan_of(directory, f"blocks = 5\n{text}").experiment
    caller = Caller("millrace calibrate")
    use_case.calibrate(
        directory / "results.sqlite", experiment, caller, verdicts=1, injected=injected
    )


def test_a_source_and_its_replica_can_be_slowed_down(tmp_path: Path, calibrated: list[str]) -> None:
    calibrate(tmp_path, pair("mysql-5.7.22", "mysql-8.0.12"), "cpu")
    assert calibrated == ["small-calibration"]


@pytest.mark.parametrize("text", [pair("mysql-5.7.22", "theirs"), ATTACHED])
def test_an_attached_server_of_any_role_is_not_slowed_down(
    tmp_path: Path, calibrated: list[str], text: str
) -> None:
    with pytest.raises(UserError, match="theirs is attached: millrace cannot slow it down"):
        calibrate(tmp_path, text, "cpu")
    assert calibrated == []
    calibrate(tmp_path, text, None)
    assert len(calibrated) == 1
