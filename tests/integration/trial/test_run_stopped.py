"""Test a stopped ``millrace run``, or stopped servers: stored results, and how it resumes."""

import os
import signal
import time
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from tests.support.command import Place, experiment

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("initialised_once", "settled_soon")]

# Enough rows that a load can be interrupted in the middle.
MANY_ROWS = 150_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_interrupted_run_is_continued(place: Place) -> None:
    file = experiment(place.directory, rows=MANY_ROWS, blocks=2)
    outcomes = ["finished"]
    for number, ended in ((signal.SIGINT, 1), (signal.SIGTERM, 0)):
        with place.running("run", file) as process:
            place.wait_for_step("measure", process, after=ended)
            process.send_signal(number)
            output, _ = process.communicate(timeout=120)
        assert process.returncode == 130, output
        assert "resumes where it stopped" in output
        assert ownership.running() == []
        stopped = place.latest()
        outcomes.append("interrupted")
        assert [attempt.outcome for attempt in stopped.attempts] == outcomes

    assert place.millrace("run", file).returncode == 0
    assert place.latest().attempts[:3] == stopped.attempts
    assert [attempt.outcome for attempt in place.latest().attempts] == [*outcomes, "finished"]


def test_what_a_killed_run_left_is_ended_by_the_next(place: Place) -> None:
    file = experiment(place.directory, rows=MANY_ROWS)
    with place.running("run", file) as process:
        place.wait_for_step("measure", process)
        process.kill()
        process.communicate()
    [left] = ownership.running()
    assert left.live_processes()
    again = place.millrace("run", file)
    assert again.returncode == 0, again.stderr
    assert left.id in again.stderr
    assert ownership.running() == []
    outcomes = [attempt.outcome for attempt in place.latest().attempts]
    assert outcomes == ["interrupted", "finished"]


def test_a_server_killed_while_it_loads_is_a_result_until_it_is_tried_again(place: Place) -> None:
    file = experiment(place.directory, rows=2 * MANY_ROWS, blocks=2)
    with place.running("run", file) as process:
        place.wait_for_step("measure", process)
        time.sleep(0.2)
        [instance] = ownership.running()
        for victim in instance.live_processes():
            os.kill(victim.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 3, output
    assert "1 of 2 trials failed" in output
    stored = place.latest()
    failed, finished = stored.attempts
    assert (failed.outcome, finished.outcome) == ("failed", "finished")
    assert failed.failed_step is not None
    assert "SIGKILL" in str(failed.reason)
    assert failed.log_tail
    assert [artefact.kind for artefact in failed.artefacts] == ["error_log"]

    assert place.millrace("run", file).returncode == 3
    assert place.latest().attempts == stored.attempts
    assert place.millrace("run", file, "--retry-failed").returncode == 0
    tried = place.latest().attempts
    assert tuple(each for each in tried if each in stored.attempts) == stored.attempts
    [again] = [each for each in tried if each not in stored.attempts]
    assert (again.trial_id, again.outcome) == (failed.trial_id, "finished")


def test_a_reader_of_the_progress_that_goes_away_does_not_end_the_run(place: Place) -> None:
    file = experiment(place.directory, blocks=2)
    with place.running("run", file) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=120)
    assert process.returncode == 0
    assert [attempt.outcome for attempt in place.latest().attempts] == ["finished"] * 2
