"""The first line about a run: what it has, and how it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.app.run import line_of_fixed, line_of_sequential
from tests.unit.analysis.builders import study
from tests.unit.campaign.laboratory import BASE, LIKE, TRIAL_S, Laboratory

NOISY = 0.05


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch, {BASE: 1.0, LIKE: 1.0}, NOISY)


def line(lab: Laboratory, **asked: float) -> str:
    """Without the run's id."""
    return line_of_sequential(*lab.chosen(**asked)).partition(": ")[2]


def test_a_new_run_says_what_ends_it(lab: Laboratory) -> None:
    assert line(lab) == "until each comparison is decided, at most 10 blocks, seed 1"
    assert "at most 10 blocks and 45 min, seed" in line(lab, max_time_s=2700.0)


def test_a_run_that_was_interrupted_goes_on(lab: Laboratory) -> None:
    lab.run(stop_after=1)
    said = "1 block begun, continued until each comparison is decided, at most 10 blocks"
    assert line(lab) == said


def test_a_run_at_its_limit_says_how_it_could_go_on(lab: Laboratory) -> None:
    lab.run(max_blocks=6)
    assert line(lab, max_blocks=6) == (
        "6 blocks, 1 of 1 comparisons undecided, and no more are allowed: "
        "--max-blocks goes on, --new measures again"
    )
    assert "--max-time goes on" in line(lab, max_time_s=6 * TRIAL_S)


def test_a_run_that_is_decided_has_nothing_left(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, LIKE: 2.0}, 0.005
    lab.run()
    assert line(lab) == "3 blocks, and nothing is left to decide; --new measures again"


def test_a_run_that_has_all_its_trials_names_an_option_of_its_command() -> None:
    run = study().run
    assert line_of_fixed(run, 6, 0).endswith("all 6 trials have a result; --new measures again")
    confirms = replace(run, spec=run.spec.model_copy(update={"confirms": "4f2a"}))
    assert line_of_fixed(confirms, 6, 0).endswith("; more --blocks add to them")
    assert line_of_fixed(confirms, 6, 2).endswith("continued, 2 of 6 trials to go")
