"""Test histories on real servers: short runs recorded."""

import json
from pathlib import Path

import pytest

from tests.support.called import millrace
from tests.support.command import experiment

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

OLD, NEW = "mysql-5.6.24", "mariadb-10.2.11"


def test_runs_of_two_servers_become_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_STORE", str(tmp_path / "results.sqlite"))
    file = experiment(tmp_path, servers=(OLD, NEW), rows=2_000, blocks=1)
    for label in ("night-1", "night-2"):
        millrace("run", "--new", file, status=0)
        recorded = millrace("history", "record", "latest", "--label", label, status=0)
        assert f"recorded {label}: 4 new points" in recorded.stderr
    again = millrace("history", "record", "latest", "--label", "night-2")
    assert "is recorded already" in again.stderr
    detected = millrace("history", "detect")
    assert "8 points in 4 series, 0 breaks" in detected.stdout
    assert "too few points to tell whether a level moved: 8 of one state" in detected.stdout
    document = json.loads(millrace("history", "show", "--json").stdout)
    for series in document["series"]:
        assert series["reference"] == OLD
        assert [each["label"] for each in series["points"]] == ["night-1", "night-2"]
        assert {each["level"] for each in series["points"]} == {NEW}
        assert len({each["state"] for each in series["points"]}) == 1
