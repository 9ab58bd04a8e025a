"""Test how a limit of time shortens trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.experiment.budget import fitted, shortened, shortening_note
from millrace.experiment.estimate import unmeasured_s
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.read import Overrides
from tests.unit.experiment.files import SMALL, read_text

DRIVEN = """
name = "driven"
workload = "sysbench"
blocks = 10
[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
test = ["point-query", "scan"]
[compare]
base = "mysql-5.6.24"
[parameters]
table_size = 1000
time_s = 10
warmup_s = 1
"""


def experiment(directory: Path, limit_s: float | None, text: str = DRIVEN) -> Experiment:
    return read_text(directory, text, overrides=Overrides(max_time_s=limit_s))


def times(found: Experiment) -> tuple[float, float]:
    return found.parameters["time_s"], found.parameters["warmup_s"]


def test_trials_are_halved_down_to_two_seconds(tmp_path: Path) -> None:
    variants = shortened(experiment(tmp_path, 600.0))
    assert list(map(times, variants)) == [(10, 1), (5.0, 0.5), (2.5, 0.5), (2.0, 0.5)]
    assert len({expand(each, seed=1).digest for each in variants}) == 4


@pytest.mark.parametrize(
    ("limit_s", "time_s"), [(3600.0, 10), (400.0, 10), (240.0, 5.0), (120.0, 2.0), (10.0, 2.0)]
)
def test_the_longest_trials_of_which_enough_fit_are_chosen(
    tmp_path: Path, limit_s: float, time_s: float
) -> None:
    asked = experiment(tmp_path, limit_s)
    found = fitted(asked)
    assert times(found)[0] == time_s
    note = shortening_note(asked, found)
    if time_s == 10:
        assert note is None
    else:
        assert note is not None
        assert note.startswith(f"trials measure for {time_s:g} s instead of 10 s (time_s)")


def test_all_chosen_trials_fit(tmp_path: Path) -> None:
    for limit_s in range(100, 400, 20):
        found = fitted(experiment(tmp_path, float(limit_s)))
        if times(found)[0] > 2:
            trials = [each for each in expand(found, seed=1).trials if each.block < 5]
            plan = expand(found, seed=1).only(trials)
            assert unmeasured_s(plan) <= limit_s


@pytest.mark.parametrize(
    "text",
    [
        SMALL,  # loads
        DRIVEN.replace("time_s = 10", "operations = 1000"),
        DRIVEN.replace("time_s = 10", "time_s = 1"),
    ],
)
def test_what_does_not_last_for_a_time_stays_as_it_is(tmp_path: Path, text: str) -> None:
    found = experiment(tmp_path, 10.0, text)
    assert fitted(found) == found
    assert shortening_note(found, found) is None


def test_without_a_limit_nothing_is_shortened(tmp_path: Path) -> None:
    found = experiment(tmp_path, None)
    assert shortened(found) == (found,)
