"""Test ``millrace run`` that ends when each comparison is decided, on real servers."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.command import QUICK_START, SHORT_TRIALS, Place

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

# A look-up takes a small part of the time of a transaction of twenty statements.
FILE = f"""\
name = "tests"
workload = "sysbench"
seed = 1
collectors = []

[factors]
server = ["mysql-5.6.24"]
test = ["oltp_read_write", "point-query"]
{QUICK_START}

[compare]
factor = "test"
base = "oltp_read_write"

"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "tests.toml").write_text(FILE + SHORT_TRIALS, encoding="utf-8")
    return Place(tmp_path, {"MILLRACE_SNAPSHOTS": str(tmp_path / "snapshots")})


def test_an_interrupted_run_goes_on_until_a_clear_difference_is_decided(place: Place) -> None:
    file = place.directory / "tests.toml"
    with place.running("run", file) as process:
        place.wait_for_step("measure", process, after=3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "until each comparison is decided, at most 10 blocks" in output
    assert "resumes where it stopped" in output
    stopped = place.latest()
    assert [attempt.outcome for attempt in stopped.attempts][-1] == "interrupted"
    assert stopped.run.blocks == max(trial.block for trial in stopped.trials) + 1

    ran = place.millrace("run", file)
    assert ran.returncode == 0, ran.stderr
    assert "no comparisons undecided" in ran.stderr
    stored = place.latest()
    assert stored.run.id == stopped.run.id
    assert stored.trials[: len(stopped.trials)] == stopped.trials
    finished = [attempt for attempt in stored.attempts if attempt.outcome == "finished"]
    assert sorted(each.trial_id for each in finished) == sorted(each.id for each in stored.trials)
    # Both tests use the snapshot that the first trial made.
    assert sum("load" in [step.name for step in each.steps] for each in finished) == 1
    for attempt in finished:
        found = {each.name: each.value for each in attempt.measurements}
        assert found["transactions"] > 0
        assert found["errors"] == 0
    assert 3 <= stored.run.blocks <= 6
    purposes = [trial.purpose for trial in stored.trials]
    assert purposes.count("measure") == 2 * stored.run.blocks
    assert purposes.count("aa") == 1
    assert f"at most 10 blocks: decided after {stored.run.blocks}" in ran.stdout
    assert "the base against itself" in ran.stdout
    document = json.loads(place.millrace("report", "--format", "json").stdout)
    assert document["design"]["ended"] == "closed"
    assert document["comparisons"][0]["verdict"] == "improvement"

    again = place.millrace("run", file)
    assert "nothing is left to decide" in again.stderr
    assert place.latest().attempts == stored.attempts

    more = stored.run.blocks + 1
    exactly = place.millrace("run", file, "--blocks", str(more))
    assert exactly.returncode == 0, exactly.stderr
    assert place.latest().run.id == stored.run.id
    assert place.latest().run.blocks == more
