"""Test ``millrace plan`` as a user sees it: output, messages, exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.campaign.forecast import ForeseenChanges
from millrace.cli.plan import _visible
from tests.support.called import millrace
from tests.support.experiment_files import SHIPPED, SMALL, experiment_text, written


def refusal(*arguments: str | Path) -> str:
    """Return the message of a command that refuses its arguments or its file."""
    done = millrace(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_plan_as_json_holds_trials_and_estimate() -> None:
    done = millrace("plan", SHIPPED, "--scale", "smoke", "--seed", "5", "--blocks", "2", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["seed"], plan["blocks"], plan["scale"]) == (5, 2, "smoke")
    assert len(plan["trials"]) == 36
    assert plan["estimate"]["fits"]


def test_the_plan_for_people_names_every_trial_and_how_to_keep_the_order() -> None:
    done = millrace("plan", SHIPPED, "--scale", "demo", "--margin", "3")
    assert done.returncode == 0, done.stderr
    assert "keeps this order" in done.stdout
    assert "margin 3 %" in done.stdout
    assert done.stdout.count("mariadb-10.11.19") >= 5


def test_all_mistakes_are_reported_together_with_exit_status_2(tmp_path: Path) -> None:
    text = SMALL.replace("5.7.22", "5.7.2").replace("[compare]", "[compar]")
    said = refusal("plan", written(tmp_path, text))
    assert "experiment.toml: 2 mistakes" in said
    assert "line 5, factors.server[1]" in said
    assert "did you mean 'mysql-5.7.22'?" in said
    assert "a name that `millrace servers list` shows, such as mysql-5.7.22" in said
    assert "did you mean 'compare'?" in said


@pytest.mark.parametrize("margin", ["nan", "inf", "-inf", "0", "50.1", "x"])
def test_a_margin_is_a_number_of_percent(margin: str) -> None:
    assert "'--margin'" in refusal("plan", SHIPPED, f"--margin={margin}")
    if margin != "50.1":
        assert "'--margin'" in refusal("report", f"--margin={margin}")


def test_an_unknown_scale_and_a_missing_file_end_with_exit_status_2(tmp_path: Path) -> None:
    assert "did you mean 'laptop'?" in refusal("plan", SHIPPED, "--scale", "lapto")
    assert "none.toml does not exist" in refusal("plan", tmp_path / "none.toml")


def test_what_no_disk_can_hold_is_refused_with_exit_status_4(tmp_path: Path) -> None:
    text = SMALL.replace("rows = 1000", "rows = 1_000_000_000_000")
    done = millrace("plan", written(tmp_path, text))
    assert done.returncode == 4
    assert "is too small for this experiment" in done.stderr
    assert "150 TB" in done.stderr


def test_the_plan_shows_the_design_and_from_how_long_to_how_long(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    shown = millrace("plan", path, "--max-blocks", "20", "--interleaved").stdout
    assert "2 treatments x at most 20 blocks" in shown
    assert "until each comparison is decided; the base once more in blocks " in shown
    assert "(3 blocks) to " in shown
    assert "(20 blocks), a guess" in shown
    limited = millrace("plan", path, "--max-time", "30s").stdout
    assert "until each comparison is decided, for 30 s at most" in limited
    assert "to 30 s (the limit)" in limited
    assert "then more blocks of the undecided comparisons, as time allows" in limited
    assert len(limited.splitlines()) < 40
    too_short = millrace("plan", path, "--max-time", "1s").stdout
    assert " s (the limit), " in too_short
    assert " for 3 blocks, a guess" in too_short
    fixed = millrace("plan", path, "--blocks", "4", "--interleaved").stdout
    assert "2 treatments x 4 blocks" in fixed
    assert "exactly this number of blocks\n" in fixed


def test_the_plan_as_json_has_the_design(tmp_path: Path) -> None:
    given = ("--max-time", "1h", "--max-blocks", "10", "--interleaved", "--json")
    plan = json.loads(millrace("plan", written(tmp_path, SMALL), *given).stdout)
    limits = {"blocks": 10, "max_time_s": 3600.0}
    assert plan["design"] == {"kind": "sequential", **limits, "slices": False}
    assert plan["estimate"]["least_time_s"] < plan["estimate"]["time_s"]
    purposes = [trial["purpose"] for trial in plan["trials"]]
    assert purposes.count("measure") == 20
    assert purposes.count("aa") in (1, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--blocks", "5", "--max-blocks", "9"), "so --max-blocks cannot limit it"),
        (("--blocks", "5", "--max-time", "9min"), "so --max-time cannot limit it"),
        (("--max-time", "9"), "'9' is not a duration such as 45min"),
    ],
)
def test_limits_that_contradict_are_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in refusal("plan", written(tmp_path, SMALL), *options)


def test_a_single_level_is_planned_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL.replace(', "mysql-5.7.22"', ""))
    done = millrace("plan", path)
    assert done.returncode == 0, done.stderr
    note = " ".join(done.stderr.split())
    assert "note: nothing is compared: mysql-5.6.24 is the only level of server" in note
    assert f"add levels to server in [factors] of {path}" in note
    path = written(tmp_path, SMALL)
    assert millrace("plan", path, "--profile-blocks", "0").stderr == ""


def factors_of(sizes: tuple[int, ...]) -> str:
    """Return an experiment whose options have these numbers of levels."""
    options = ("innodb_io_capacity", "innodb_lru_scan_depth", "sync_binlog", "back_log")
    lines = "".join(
        f"options.{name} = {list(range(1, size + 1))}\n"
        for name, size in zip(options, sizes, strict=False)
    )
    return SMALL.replace("[compare]", f"{lines}[compare]", 1)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((500, 500, 500, 4), "the levels give 1,000,000,000 treatments"),
        ((100_000,), "has 100,000 levels; expected at most 500"),
        ((400, 10), "8,000 treatments in 1,000 blocks are 8,000,000 trials"),
    ],
)
def test_a_plan_that_nobody_measures_is_refused_before_it_is_expanded(
    tmp_path: Path, sizes: tuple[int, ...], said: str
) -> None:
    found = refusal("plan", written(tmp_path, factors_of(sizes)), "--blocks", "1000")
    assert said in found
    assert "experiment.toml" in found


def test_a_file_with_very_many_mistakes_names_the_first_ones(tmp_path: Path) -> None:
    more = "".join(f"k{number} = 1\n" for number in range(20_000))
    said = refusal("plan", written(tmp_path, f"{SMALL}\n[parameterss]\n{more}"))
    assert "parameterss" in said
    assert said.count("\n") <= 110


@pytest.mark.parametrize(
    ("name", "value"),
    [("time_s", "1e99"), ("time_s", "3e6"), ("settle_s", "1e300"), ("table_size", "1" + 30 * "0")],
)
def test_a_parameter_that_no_trial_can_have_is_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    text = experiment_text("updates", factors={"test": ["read-select"]})
    said = refusal("plan", written(tmp_path, f"{text}{name} = {value}\n"))
    assert f"parameters.{name}" in said
    assert "expected" in said


@pytest.mark.parametrize("limit", ["9" * 30 + "h", "99999999h"])
def test_a_limit_of_time_beyond_all_patience_is_refused(limit: str) -> None:
    assert "is longer than ten years" in refusal("plan", SHIPPED, "--max-time", limit)


@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/null", "pipe", "directory", "huge"])
def test_a_file_whose_reading_may_never_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "experiment.toml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 33)
        case _:
            path = Path(kind)
    for command in ("plan", "run"):
        assert str(path) in refusal(command, path)


def test_an_experiment_comes_through_a_pipe_of_the_shell(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    program = f"{sys.executable} -m millrace.cli.main plan"
    script = f"cat {path} | {program} /dev/stdin && {program} <(cat {path})"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 treatments") == 2


def test_noise_that_hides_changes_is_stated_without_contradiction() -> None:
    found = ForeseenChanges("r1", is_of_plan=True, blocks=3, smallest=1.2, largest=4.0)
    assert _visible(found) == (
        "only changes by a factor of 2 or more: 3 blocks are too few for the noise of run r1"
    )
    found = ForeseenChanges("r1", is_of_plan=True, blocks=3, smallest=0.01, largest=0.01)
    assert _visible(found) == "changes of 1.0 % or more in 3 blocks, by the noise of run r1"
