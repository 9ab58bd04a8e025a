"""Test how a limit of time shortens trials, and the block that is profiled by default."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.app.experiments import require_profile, with_profile
from millrace.campaign.inputs import PreparedTreatment, RunInput, trial_spec
from millrace.campaign.run_records import design_of
from millrace.collect import profile
from millrace.errors import HostError
from millrace.experiment import budget
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import profiled_s, unmeasured_s
from millrace.experiment.model import Experiment
from millrace.experiment.plan import chosen, expand
from millrace.experiment.read import Overrides
from millrace.model.trials import is_in_measured_block
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.called import millrace
from tests.support.experiment_files import DRIVEN as FILE_DRIVEN
from tests.support.experiment_files import SMALL, experiment_text, parsed, written

DRIVEN = experiment_text(
    "sysbench",
    blocks=10,
    factors={"test": ["point-query", "scan"]},
    parameters={"table_size": 1000, "time_s": 10, "warmup_s": 1},
)


def experiment(limit_s: float | None, text: str = DRIVEN) -> Experiment:
    return parsed(text, overrides=Overrides(max_time_s=limit_s))


def times(found: Experiment) -> tuple[float, float]:
    return float(found.parameters["time_s"]), float(found.parameters["warmup_s"])


def test_trials_are_halved_down_to_two_seconds() -> None:
    variants = budget.shortened(experiment(600.0))
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
    text: str, limit_s: float, time_s: float
) -> None:
    asked = experiment(limit_s, text)
    found = budget.fitted(asked)
    assert times(found)[0] == time_s
    if time_s == 10:
        assert not budget.notes(asked, found)
    else:
        assert budget.notes(asked, found)[0].startswith(
            f"trials measure for {time_s:g} s instead of 10 s (time_s)"
        )


def test_all_chosen_trials_fit() -> None:
    for limit_s in range(100, 400, 20):
        found = budget.fitted(experiment(float(limit_s)))
        if times(found)[0] > 2:
            trials = [each for each in expand(found, seed=1).trials if each.block < 5]
            plan = expand(found, seed=1).only(trials)
            assert unmeasured_s(plan) <= limit_s


def test_few_sliced_blocks_keep_the_length_of_the_file() -> None:
    limits = Overrides(max_time_s=400.0, max_blocks=5)
    asked = parsed(IN_SLICES, overrides=limits)
    assert times(budget.fitted(asked))[0] == 10


@pytest.mark.parametrize(
    "text",
    [
        SMALL,  # loads
        DRIVEN.replace("time_s = 10", "operations = 1000"),
        DRIVEN.replace("time_s = 10", "time_s = 1"),
    ],
)
def test_what_does_not_last_for_a_time_stays_as_it_is(text: str) -> None:
    found = experiment(200.0, text)
    assert budget.fitted(found) == found
    assert budget.notes(found, found) == []


def levels(found: Experiment, factor: str) -> tuple[object, ...]:
    return next(each.levels for each in found.factors if each.name == factor)


def test_the_last_tests_are_left_out_where_no_verdict_on_all_fits() -> None:
    names = ["point-query", "scan", "update-index", "update-nonindex"]
    text = DRIVEN.replace('["point-query", "scan"]', str(names).replace("'", '"'))
    last_count = len(names)
    for limit_s in range(300, 10, -10):
        asked = experiment(float(limit_s), text)
        found = budget.fitted(asked)
        count = len(levels(found, "test"))
        assert levels(found, "test") == tuple(names[:count])
        assert 1 <= count <= last_count
        last_count = count
        trials = [each for each in expand(found, seed=1).trials if each.block < 3]
        assert count == 1 or unmeasured_s(expand(found, seed=1).only(trials)) <= limit_s
        assert found.left_out_tests == tuple(names[count:])
        assert design_of(found).left_out_tests == found.left_out_tests
        missing = [note for note in budget.notes(asked, found) if "left out" in note]
        assert bool(missing) == (count < len(names))
        assert all(name in missing[0] for name in names[count:] if missing)
        if count < len(names):
            assert times(found)[0] <= 2.5, "trials are shortened first"
    assert last_count == 1


def test_compared_tests_are_never_left_out() -> None:
    text = DRIVEN.replace('server = ["mysql-5.6.24", "mysql-5.7.22"]', 'server = ["mysql-5.6.24"]')
    text = text.replace('base = "mysql-5.6.24"', 'factor = "test"\nbase = "scan"')
    assert len(levels(budget.fitted(experiment(10.0, text)), "test")) == 2


def test_without_a_limit_nothing_is_shortened() -> None:
    found = experiment(None)
    assert budget.shortened(found) == (found,)


LOAD = SMALL.replace("rows = 1000", "rows = 2_000_000")


def driven(
    *, time_s: float = 10, warmup_s: float = 2, more: str = "", **overrides: Any
) -> Experiment:
    text = FILE_DRIVEN.replace('name = "driven"\n', f'name = "driven"\n{more}\n')
    made = parsed(text, overrides=Overrides(**overrides))
    return replace(made, parameters={**made.parameters, "time_s": time_s, "warmup_s": warmup_s})


def seconds(experiment: Experiment) -> tuple[float, float]:
    """Return the estimated seconds of a plan's measured and of its profiled trials."""
    plan = with_aa_trials(expand(experiment, seed=0))
    measuring = plan.only(trial for trial in plan.trials if is_in_measured_block(trial.purpose))
    return unmeasured_s(measuring), profiled_s(plan, {})


@given(st.integers(1, 40), st.floats(0.5, 120), st.floats(0, 30))
def test_profiled_trials_take_a_tenth_of_the_run_at_most(
    blocks: int, time_s: float, warmup_s: float
) -> None:
    made = driven(time_s=time_s, warmup_s=warmup_s, blocks=blocks)
    found = budget.with_default_profile(made)
    assert found.profile_blocks in (0, 1)
    measuring_s, profiling_s = seconds(found)
    assert profiling_s <= 0.1 * measuring_s
    assert (budget.too_short_for_profile(found) is None) == bool(found.profile_blocks)


def test_run_has_a_profiled_block_when_nobody_chose_a_number() -> None:
    found = budget.with_default_profile(driven(time_s=30, blocks=5))
    assert (found.profile_blocks, found.profile_s) == (1, 7.5)
    longer = budget.with_default_profile(driven(time_s=30, blocks=20))
    assert (longer.profile_blocks, longer.profile_s) == (1, None)


def test_run_that_may_stop_early_has_short_profiled_trials() -> None:
    fixed = budget.with_default_profile(driven(blocks=20))
    sequential = budget.with_default_profile(driven(max_blocks=20))
    assert sequential.sequential
    assert (fixed.profile_s, sequential.profile_s) == (None, 2.0)


def test_limit_of_time_bounds_the_profiled_block() -> None:
    found = budget.with_default_profile(driven(max_time_s=90.0))
    assert not found.profile_blocks
    assert budget.with_default_profile(driven(max_time_s=900.0)).profile_blocks == 1


def test_short_run_has_no_profile() -> None:
    found = budget.with_default_profile(driven(time_s=1, blocks=3))
    assert not found.profile_blocks
    note = budget.too_short_for_profile(found)
    assert note is not None
    assert "--profile-blocks 1" in note


@pytest.mark.parametrize("number", [0, 3])
def test_chosen_number_of_profiled_blocks_stays(number: int) -> None:
    of_file = driven(time_s=30, more=f"profile_blocks = {number}")
    of_option = driven(time_s=30, profile_blocks=number)
    for made in (of_file, of_option):
        found = budget.with_default_profile(made)
        assert (found.profile_blocks, found.profile_s) == (number, None)
        assert budget.too_short_for_profile(found) is None


@pytest.mark.parametrize(
    ("more", "overrides"),
    [("collectors = []", {}), ("", {"collectors": ()}), ("", {"collectors": ("instructions",)})],
)
def test_run_without_collectors_has_no_profile(more: str, overrides: dict[str, Any]) -> None:
    assert not budget.with_default_profile(driven(time_s=30, more=more, **overrides)).profile_blocks


def test_profiled_block_leaves_the_ids_and_places_of_all_others() -> None:
    made = driven(blocks=20)
    without = with_aa_trials(expand(made, seed=3))
    found = with_aa_trials(expand(budget.with_default_profile(made), seed=3))
    assert found.digest == without.digest
    assert found.trials[: len(without.trials)] == without.trials
    later = found.trials[len(without.trials) :]
    assert {trial.purpose for trial in later} == {"profile"}


def test_only_profiled_trials_are_shorter() -> None:
    made = budget.with_default_profile(driven(max_blocks=20))
    plan = expand(made, seed=3)
    prepared = {
        each.id: PreparedTreatment((), ResolvedWorkload(made.workload, chosen(made, each)))
        for each in plan.treatments
    }
    inputs = RunInput(prepared, None, None)
    times = {
        (trial.purpose, spec.workload.client_settings.time_s, profile.NAME in spec.collectors)
        for trial in plan.trials
        for spec in [trial_spec("name", trial, plan, inputs)]
    }
    assert times == {("measure", 10.0, False), ("profile", 2.0, True)}


def test_loads_are_profiled_as_long_as_they_take() -> None:
    found = budget.with_default_profile(parsed(LOAD))
    assert (found.profile_blocks, found.profile_s) == (1, None)


def test_default_profile_is_left_out_with_a_note_when_perf_is_unusable() -> None:
    made = driven(time_s=30)
    found, note = with_profile(made)
    assert not found.profile_blocks
    assert note is not None
    assert "perf is not usable" in note
    require_profile(found)


def test_requested_profile_fails_when_perf_is_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = driven(profile_blocks=1)
    with pytest.raises(HostError, match="perf is not usable") as error:
        require_profile(wanted)
    assert "--profile-blocks 0" in (error.value.hint or "")
    monkeypatch.setattr(profile, "require_usable", lambda: None)
    require_profile(wanted)


def test_plan_shows_the_time_of_the_profiled_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, LOAD)
    monkeypatch.setattr(profile, "require_usable", lambda: None)
    shown = millrace("plan", path, "--interleaved")
    assert "at most 10 blocks + 1 that are profiled" in shown.stdout
    assert "for 1 profiled block" in shown.stdout
    assert "no block is profiled" not in shown.stderr
    assert "after the limit" in millrace("plan", path, "--max-time", "2h").stdout
    short = millrace("plan", path, "--blocks", "3")
    assert "no block is profiled" in short.stderr
    document = json.loads(millrace("plan", path, "--json").stdout)
    assert document["profile_blocks"] == 1
    assert document["estimate"]["profile_s"] > 0
    purposes = [trial["purpose"] for trial in document["trials"]]
    assert purposes.count("profile") == 2
