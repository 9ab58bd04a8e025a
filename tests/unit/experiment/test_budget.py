"""Test how a limit of time shortens trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.campaign.run_records import design_of
from millrace.experiment.budget import fitted, notes, shortened
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
    return float(found.parameters["time_s"]), float(found.parameters["warmup_s"])


def test_trials_are_halved_down_to_two_seconds(tmp_path: Path) -> None:
    variants = shortened(experiment(tmp_path, 600.0))
    assert list(map(times, variants)) == [(10, 1), (5.0, 0.5), (2.5, 0.5), (2.0, 0.5)]
    assert len({expand(each, seed=1).digest for each in variants}) == 4


IN_SLICES = f'design = "slices"\n{DRIVEN}'
EIGHT_CLIENTS = IN_SLICES.replace("[compare]", "clients = [8]\n[compare]")
MIXED = DRIVEN.replace('"scan"', '"update-index"') + 'cache_mode = "cached"\n'


@pytest.mark.parametrize(
    ("text", "limit_s", "time_s"),
    [
        (DRIVEN, 3600.0, 10),
        (DRIVEN, 400.0, 10),
        (DRIVEN, 270.0, 5.0),
        (DRIVEN, 120.0, 2.0),
        (DRIVEN, 10.0, 2.0),
        (IN_SLICES, 3600.0, 10),
        (IN_SLICES, 1200.0, 5.0),
        (IN_SLICES, 400.0, 2.0),
        (EIGHT_CLIENTS, 400.0, 10),
        (MIXED, 400.0, 10),
    ],
)
def test_budget_chooses_the_longest_trials_that_fit(
    tmp_path: Path, text: str, limit_s: float, time_s: float
) -> None:
    asked = experiment(tmp_path, limit_s, text)
    found = fitted(asked)
    assert times(found)[0] == time_s
    if time_s == 10:
        assert not notes(asked, found)
    else:
        assert notes(asked, found)[0].startswith(
            f"trials measure for {time_s:g} s instead of 10 s (time_s)"
        )


def test_all_chosen_trials_fit(tmp_path: Path) -> None:
    for limit_s in range(100, 400, 20):
        found = fitted(experiment(tmp_path, float(limit_s)))
        if times(found)[0] > 2:
            trials = [each for each in expand(found, seed=1).trials if each.block < 5]
            plan = expand(found, seed=1).only(trials)
            assert unmeasured_s(plan) <= limit_s


def test_few_sliced_blocks_keep_the_length_of_the_file(tmp_path: Path) -> None:
    limits = Overrides(max_time_s=400.0, max_blocks=5)
    asked = read_text(tmp_path, IN_SLICES, overrides=limits)
    assert times(fitted(asked))[0] == 10


@pytest.mark.parametrize(
    "text",
    [
        SMALL,  # loads
        DRIVEN.replace("time_s = 10", "operations = 1000"),
        DRIVEN.replace("time_s = 10", "time_s = 1"),
    ],
)
def test_what_does_not_last_for_a_time_stays_as_it_is(tmp_path: Path, text: str) -> None:
    found = experiment(tmp_path, 200.0, text)
    assert fitted(found) == found
    assert notes(found, found) == []


def levels(found: Experiment, factor: str) -> tuple[object, ...]:
    return next(each.levels for each in found.factors if each.name == factor)


def test_the_last_tests_are_left_out_where_no_verdict_on_all_fits(tmp_path: Path) -> None:
    names = ["point-query", "scan", "update-index", "update-nonindex"]
    text = DRIVEN.replace('["point-query", "scan"]', str(names).replace("'", '"'))
    last_count = len(names)
    for limit_s in range(300, 10, -10):
        asked = experiment(tmp_path, float(limit_s), text)
        found = fitted(asked)
        count = len(levels(found, "test"))
        assert levels(found, "test") == tuple(names[:count])
        assert 1 <= count <= last_count
        last_count = count
        trials = [each for each in expand(found, seed=1).trials if each.block < 3]
        assert count == 1 or unmeasured_s(expand(found, seed=1).only(trials)) <= limit_s
        assert found.left_out_tests == tuple(names[count:])
        assert design_of(found).left_out_tests == found.left_out_tests
        missing = [note for note in notes(asked, found) if "left out" in note]
        assert bool(missing) == (count < len(names))
        assert all(name in missing[0] for name in names[count:] if missing)
        if count < len(names):
            assert times(found)[0] <= 2.5, "trials are shortened first"
    assert last_count == 1


def test_compared_tests_are_never_left_out(tmp_path: Path) -> None:
    text = DRIVEN.replace('server = ["mysql-5.6.24", "mysql-5.7.22"]', 'server = ["mysql-5.6.24"]')
    text = text.replace('base = "mysql-5.6.24"', 'factor = "test"\nbase = "scan"')
    assert len(levels(fitted(experiment(tmp_path, 10.0, text)), "test")) == 2


def test_without_a_limit_nothing_is_shortened(tmp_path: Path) -> None:
    found = experiment(tmp_path, None)
    assert shortened(found) == (found,)
