"""Test which trials can fill a disk, and the options that they need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.app.calibrate import calibrate
from millrace.app.execution import Caller
from millrace.campaign import full_disk
from millrace.errors import PermanentHostError, Unavailable, UserError, ValidationError
from millrace.experiment.model import Plan
from millrace.experiment.plan import chosen
from millrace.levels import Level
from millrace.model.roles import SERVER
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.installed import installed
from tests.unit.campaign.laboratory import attach_a_server, plan_of

FILE = """
name = "full"
workload = "full-disk"
[factors]
server = ["{server}"]
filled_by = ["inserts", "binary_log"]
{more}
[compare]
factor = "filled_by"
base = "inserts"
"""


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def plan(directory: Path, server: str = "mysql-5.7.22", more: str = "") -> Plan:
    return plan_of(directory, FILE.format(server=server, more=more))


def test_the_disk_of_an_attached_server_cannot_be_filled(tmp_path: Path) -> None:
    full_disk.refuse_impossible(plan(tmp_path))
    with pytest.raises(ValidationError, match="cannot fill the disk of theirs, an attached server"):
        full_disk.refuse_impossible(plan(tmp_path, "theirs"))


def test_a_host_that_cannot_mount_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_work_dir: Path) -> None:
        raise Unavailable("no loop devices", hint="be root")

    monkeypatch.setattr(full_disk, "require_limited_filesystem", refuse)
    with pytest.raises(PermanentHostError, match="no loop devices") as caught:
        full_disk.refuse_without_filesystem(plan(tmp_path), tmp_path)
    assert caught.value.hint == "be root"


def test_what_compares_no_speed_is_not_calibrated(tmp_path: Path) -> None:
    store, caller = tmp_path / "results.sqlite", Caller("millrace calibrate")
    with pytest.raises(UserError, match="do not measure speed"):
        calibrate(store, plan(tmp_path).experiment, caller, verdicts=1, injected=None)
    assert not store.exists()


def required(directory: Path, more: str = "") -> dict[str, Mapping[str, Level]]:
    """Return the options that the server of each case needs."""
    planned = plan(directory, more=more)
    servers = {SERVER: installed(directory, "mysql-5.7.22")}
    found = {}
    for treatment in planned.treatments:
        workload = ResolvedWorkload(
            planned.experiment.workload, chosen(planned.experiment, treatment)
        )
        needed = full_disk.required_options(servers, treatment, workload)
        found[str(treatment.levels["filled_by"])] = needed[SERVER]
    return found


def test_only_the_case_of_the_binary_log_has_one(tmp_path: Path) -> None:
    assert required(tmp_path) == {
        "inserts": {"log_bin": False},
        "binary_log": {"binlog_format": "ROW", "server_id": 1, "log_bin": "binlog"},
    }
    with pytest.raises(UserError, match=r"options\.log_bin cannot be varied"):
        required(tmp_path, more="options.log_bin = [true]")


def test_no_snapshot_is_kept_of_a_disk_that_is_filled(tmp_path: Path) -> None:
    experiment = plan(tmp_path).experiment
    workload = ResolvedWorkload(experiment.workload, {"free_mb": 32})
    assert not workload.keeps_snapshots
    assert workload.rows == 64_000
    assert workload.checked.measured.timed == ("fill",)
    assert workload.checked.measured.loading == ()
