"""Test a stopped ``millrace run``, or stopped servers: stored results, and how it resumes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from tests.integration.trial.command import Place, experiment

pytestmark = pytest.mark.integration

# Enough rows that a load takes seconds, and can be interrupted in the middle.
MANY_ROWS = 600_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_continued(place: Place, number: signal.Signals) -> None:
    file = experiment(place.directory, rows=MANY_ROWS, blocks=2)
    with place.running("run", file) as process:
        place.wait_for_step("measure", process, after=1)
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "resumes where it stopped" in output
    assert ownership.running() == []
    stopped = place.latest()
    assert [attempt.outcome for attempt in stopped.attempts] == ["finished", "interrupted"]

    assert place.millrace("run", file).returncode == 0
    outcomes = [attempt.outcome for attempt in place.latest().attempts]
    assert outcomes == ["finished", "interrupted", "finished"]
    assert place.latest().attempts[0] == stopped.attempts[0]


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


def test_a_server_killed_while_it_loads_is_a_result(place: Place) -> None:
    file = experiment(place.directory, rows=2 * MANY_ROWS, blocks=2)
    with place.running("run", file) as process:
        place.wait_for_step("measure", process)
        time.sleep(0.5)
        [instance] = ownership.running()
        for victim in instance.live_processes():
            os.kill(victim.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 3, output
    assert "1 of 2 trials failed" in output
    failed, finished = place.latest().attempts
    assert (failed.outcome, finished.outcome) == ("failed", "finished")
    assert failed.failed_step is not None
    assert "SIGKILL" in str(failed.reason)
    assert failed.log_tail
    assert [artefact.kind for artefact in failed.artefacts] == ["error_log"]


def test_failed_trials_are_tried_again_only_when_asked(place: Place) -> None:
    file = experiment(place.directory, rows=MANY_ROWS)
    with place.running("run", file) as process:
        place.wait_for_step("measure", process)
        [instance] = ownership.running()
        for victim in instance.live_processes():
            os.kill(victim.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    assert place.millrace("run", file).returncode == 3
    assert [attempt.outcome for attempt in place.latest().attempts] == ["failed"]
    assert place.millrace("run", file, "--retry-failed").returncode == 0
    assert [attempt.outcome for attempt in place.latest().attempts] == ["failed", "finished"]


def test_a_reader_of_the_progress_that_goes_away_does_not_end_the_run(place: Place) -> None:
    file = experiment(place.directory, blocks=2)
    with place.running("run", file) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=120)
    assert process.returncode == 0
    assert [attempt.outcome for attempt in place.latest().attempts] == ["finished"] * 2
