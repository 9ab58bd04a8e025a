"""Test the first line about a run: its content, and how it continues."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.campaign.policies.experiment import SequentialOpened
from millrace.cli.event_text import event_line, sequential_text
from millrace.model.events import RunOpened
from tests.support.laboratory import BASE, LIKE, TRIAL_S, Laboratory

NOISY = 0.05


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch, {BASE: 1.0, LIKE: 1.0}, NOISY)


def line(lab: Laboratory, **asked: float) -> str:
    """Return the line without the run's id."""
    return sequential_text(SequentialOpened(*lab.selected(**asked))).partition(": ")[2]


def test_new_run_prints_its_limits(lab: Laboratory) -> None:
    assert re.fullmatch(".*, at most 10 blocks, seed 1", line(lab))
    assert "at most 100 blocks and 45 min, seed" in line(lab, max_time_s=2700.0)
    assert "at most 8 blocks and 45 min, seed" in line(lab, max_time_s=2700.0, max_blocks=8)


def test_a_run_that_was_interrupted_goes_on(lab: Laboratory) -> None:
    lab.run(stop_after=1)
    assert re.fullmatch("1 block started, resumed .*, at most 10 blocks", line(lab))


def test_run_at_its_limit_prints_the_command_to_extend_it(lab: Laboratory) -> None:
    lab.run(max_blocks=6)
    said = line(lab, max_blocks=6)
    assert "a --max-blocks above 6 resumes" in said
    assert re.fullmatch("6 blocks, 1 of 1 comparison undecided, .*--max-blocks .*--new .*", said)
    assert "--max-time resumes" in line(lab, max_time_s=6 * TRIAL_S)


def test_a_run_that_is_decided_has_nothing_left(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, LIKE: 2.0}, 0.005
    lab.run()
    assert re.fullmatch("3 blocks, .*--new .*", line(lab))


def test_a_run_that_has_all_its_trials_names_an_option_of_its_command() -> None:
    done = RunOpened(run="r", seed=1, trials=6, waiting=0)
    assert (event_line(done) or "").endswith("; --new measures again")
    confirms = replace(done, confirms="4f2a")
    assert (event_line(confirms) or "").endswith("; a larger --blocks adds some")
    assert (event_line(replace(confirms, waiting=2)) or "").endswith("resumed, 2 of 6 trials to go")
