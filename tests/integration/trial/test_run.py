"""Test ``millrace run`` on real servers: what it executes, stores and refuses."""

import os
from pathlib import Path

import pytest

from millrace.host.exclusive import host_lock
from tests.conftest import InstanceOf
from tests.support.command import Place, experiment

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_run_is_kept_reported_and_never_repeated(tmp_path: Path) -> None:
    place = Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})
    file = experiment(place.directory, servers=("mysql-5.6.24", "mariadb-10.11.19"), blocks=2)
    first = place.millrace("run", file)
    assert first.returncode == 0, first.stderr
    stored = place.latest()
    assert [attempt.outcome for attempt in stored.attempts] == ["finished"] * 4
    of = {attempt.trial_id: attempt for attempt in stored.attempts}
    for trial in stored.trials:
        attempt = of[trial.id]
        names = [step.name for step in attempt.steps]
        ended = ["stop", "sizes"] if trial.block == 0 else ["kill"]
        assert names == [
            "prepare", *(["initialise", "save"] if trial.block == 0 else []), "restore", "start",
            "record", "database", "table_format", "settle", "create", "load",
            "finish", "count", "verify", *ended,
        ]  # fmt: skip
        found = {each.name: each.value for each in attempt.measurements}
        assert found["rows"] == 5_000
        if trial.block == 0:
            assert 0 < found["table_apparent_bytes"] <= found["data_dir_apparent_bytes"]
        [instance] = attempt.instances
        assert instance.server.version_reported.startswith(instance.server.version)
        assert instance.effective["innodb_buffer_pool_size"] == str(128 << 20)
    assert "mariadb-10.11.19" in first.stdout
    report = place.directory / "reports" / f"{stored.run.id}.html"
    assert str(report) in first.stdout
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

    again = place.millrace("run", file)
    assert again.returncode == 0
    assert "all 4 trials have a result" in again.stderr
    assert place.latest().attempts == stored.attempts

    more = place.millrace("run", file, "--blocks", "3")
    assert more.returncode == 0
    assert "2 of 6 trials to go" in more.stderr
    assert "mariadb-10.11.19" in more.stdout
    assert place.latest().run.blocks == 3

    fresh = place.millrace("run", file, "--new", "--blocks", "1")
    assert fresh.returncode == 0
    assert place.latest().run.id != stored.run.id


def test_engines_and_load_modes(place: Place) -> None:
    factors = {"engine": ["InnoDB", "MyISAM"], "load_mode": ["local", "server_file"]}
    ran = place.millrace("run", experiment(place.directory, factors=factors))
    assert ran.returncode == 0, ran.stderr
    stored = place.latest()
    assert len(stored.attempts) == 4
    assert {attempt.outcome for attempt in stored.attempts} == {"finished"}


def test_a_server_that_does_not_start_is_a_result_and_the_plan_goes_on(place: Place) -> None:
    more = '[configurations.broken]\noptions.innodb_data_file_path = "nonsense"\n'
    factors = {"configuration": ["broken", "default"]}
    ran = place.millrace("run", experiment(place.directory, factors=factors, more=more))
    assert ran.returncode == 3, ran.stderr
    outcomes = {attempt.outcome for attempt in place.latest().attempts}
    assert outcomes == {"failed", "finished"}
    [failed] = [each for each in place.latest().attempts if each.outcome == "failed"]
    assert failed.failed_step in ("initialise", "start")
    assert "innodb" in str(failed.log_tail).lower()


def test_an_option_the_server_does_not_know_is_refused_before_anything_runs(place: Place) -> None:
    more = '[configurations.new]\noptions.innodb_redo_log_capacity = "100M"\n'
    file = experiment(place.directory, factors={"configuration": ["new"]}, more=more)
    ran = place.millrace("run", file)
    assert ran.returncode == 2
    assert "innodb_redo_log_capacity" in ran.stderr
    assert "optional" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_value_of_an_option_file_that_a_server_refuses_is_shown_with_its_line(
    place: Place,
) -> None:
    option_file = place.directory / "shop, old.cnf"
    option_file.write_text("[mysqld]\nback_log = 90\nsql-mode = NO_SUCH_MODE\n!include /x.cnf\n")
    more = f'[configurations.mine]\nfile = "{option_file.name}"\n'
    planned = place.millrace(
        "plan", experiment(place.directory, factors={"configuration": ["mine"]}, more=more)
    )
    assert planned.returncode == 2
    assert f"sql_mode = NO_SUCH_MODE ({option_file}, line 3): " in planned.stderr
    option_file.write_text("[mysqld]\nback_log = 90\nno_such_option = 1\n!include /x.cnf\n")
    planned = place.millrace(
        "plan", experiment(place.directory, factors={"configuration": ["mine"]}, more=more)
    )
    assert planned.returncode == 0, planned.stderr
    layer = "configuration mine (shop, old.cnf): left out"
    assert f"{layer} !include /x.cnf: line 4 includes other files" in planned.stderr
    assert f"{layer} with mysql-5.6.24: no_such_option (not known)" in planned.stderr


def test_two_runs_at_once_would_disturb_each_other(place: Place) -> None:
    with host_lock("a test of the host lock"):
        ran = place.process("run", experiment(place.directory))
    assert ran.returncode == 2
    assert str(os.getpid()) in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("by", ["tcp", "socket"])
def test_an_attached_server_is_measured_and_left_as_it_was(
    place: Place, instance_of: InstanceOf, by: str
) -> None:
    with instance_of("mysql-5.7.22") as ours:
        before = ours.query("SHOW DATABASES")
        with place.attached(ours, "mysql", by):
            ran = place.millrace("run", experiment(place.directory, servers=("theirs",)))
        assert ran.returncode == 0, ran.stderr
        ours.check_alive()
        assert ours.query("SHOW DATABASES") == before
    [attempt] = place.latest().attempts
    assert attempt.instances[0].server.build.attached
    assert attempt.instances[0].facts.limits
    assert ours.password not in place.store.read_bytes().decode("latin-1")


def test_the_shipped_study_runs_at_smoke_scale(place: Place) -> None:
    """Run it on all its servers, but not under defaults, as all other runs of tests do."""
    shipped = Path(__file__).parents[3] / "experiments" / "load-data.toml"
    fewer = shipped.read_text(encoding="utf-8")
    for said, instead in (
        ("rows = 100_000\n", "rows = 5_000\n"),
        ('"default", "wmf", "insecure"', '"wmf", "insecure"'),
    ):
        assert said in fewer
        fewer = fewer.replace(said, instead)
    study = place.directory / shipped.name
    study.write_text(fewer, encoding="utf-8")
    ran = place.millrace("run", study, "--scale", "smoke", "--blocks", "1")
    assert ran.returncode == 0, ran.stderr
    stored = place.latest()
    treatments = {tuple(each.levels.values())[:2] for each in stored.treatments}
    assert len(treatments) == 12
    assert {attempt.outcome for attempt in stored.attempts} == {"finished"}
    assert "at least 3 are needed" in ran.stdout
