"""Test the profiled block that a run has unless the user chooses another number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.app.experiments import require_profile, with_profile
from millrace.campaign.inputs import PreparedTreatment, RunInput, trial_spec
from millrace.collect import profile
from millrace.errors import HostError
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import profiled_s, unmeasured_s
from millrace.experiment.model import Experiment
from millrace.experiment.plan import chosen, expand
from millrace.experiment.profiling import too_short_for_profile, with_default_profile
from millrace.experiment.read import Overrides
from millrace.model.trials import is_in_measured_block
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.called import millrace
from tests.unit.experiment.files import DRIVEN, SMALL, read_text

LOAD = SMALL.replace("rows = 1000", "rows = 2_000_000")


def driven(
    directory: Path, *, time_s: float = 10, warmup_s: float = 2, more: str = "", **overrides: Any
) -> Experiment:
    text = DRIVEN.replace('name = "driven"\n', f'name = "driven"\n{more}\n')
    made = read_text(directory, text, overrides=Overrides(**overrides))
    return replace(made, parameters={**made.parameters, "time_s": time_s, "warmup_s": warmup_s})


def seconds(experiment: Experiment) -> tuple[float, float]:
    """Return the estimated seconds of a plan's measured and of its profiled trials."""
    plan = with_aa_trials(expand(experiment, seed=0))
    measuring = plan.only(trial for trial in plan.trials if is_in_measured_block(trial.purpose))
    return unmeasured_s(measuring), profiled_s(plan, {})


@given(st.integers(1, 40), st.floats(0.5, 120), st.floats(0, 30))
def test_profiled_trials_take_a_tenth_of_the_run_at_most(
    tmp_path_factory: pytest.TempPathFactory, blocks: int, time_s: float, warmup_s: float
) -> None:
    directory = tmp_path_factory.mktemp("driven", numbered=True)
    made = driven(directory, time_s=time_s, warmup_s=warmup_s, blocks=blocks)
    found = with_default_profile(made)
    assert found.profile_blocks in (0, 1)
    measuring_s, profiling_s = seconds(found)
    assert profiling_s <= 0.1 * measuring_s
    assert (too_short_for_profile(found) is None) == bool(found.profile_blocks)


def test_run_has_a_profiled_block_when_nobody_chose_a_number(tmp_path: Path) -> None:
    found = with_default_profile(driven(tmp_path, time_s=30, blocks=5))
    assert (found.profile_blocks, found.profile_s) == (1, 7.5)
    longer = with_default_profile(driven(tmp_path, time_s=30, blocks=20))
    assert (longer.profile_blocks, longer.profile_s) == (1, None)


def test_run_that_may_stop_early_has_short_profiled_trials(tmp_path: Path) -> None:
    fixed = with_default_profile(driven(tmp_path, blocks=20))
    sequential = with_default_profile(driven(tmp_path, max_blocks=20))
    assert sequential.sequential
    assert (fixed.profile_s, sequential.profile_s) == (None, 2.0)


def test_limit_of_time_bounds_the_profiled_block(tmp_path: Path) -> None:
    found = with_default_profile(driven(tmp_path, max_time_s=90.0))
    assert not found.profile_blocks
    assert with_default_profile(driven(tmp_path, max_time_s=900.0)).profile_blocks == 1


def test_short_run_has_no_profile(tmp_path: Path) -> None:
    found = with_default_profile(driven(tmp_path, time_s=1, blocks=3))
    assert not found.profile_blocks
    note = too_short_for_profile(found)
    assert note is not None
    assert "--profile-blocks 1" in note


@pytest.mark.parametrize("number", [0, 3])
def test_chosen_number_of_profiled_blocks_stays(tmp_path: Path, number: int) -> None:
    of_file = driven(tmp_path, time_s=30, more=f"profile_blocks = {number}")
    of_option = driven(tmp_path, time_s=30, profile_blocks=number)
    for made in (of_file, of_option):
        found = with_default_profile(made)
        assert (found.profile_blocks, found.profile_s) == (number, None)
        assert too_short_for_profile(found) is None


@pytest.mark.parametrize(
    ("more", "overrides"),
    [
        ("collectors = []", {}),
        ("", {"collectors": ()}),
        ("", {"collectors": ("instructions",)}),
    ],
)
def test_run_without_collectors_has_no_profile(
    tmp_path: Path, more: str, overrides: dict[str, Any]
) -> None:
    assert not with_default_profile(
        driven(tmp_path, time_s=30, more=more, **overrides)
    ).profile_blocks


def test_profiled_block_leaves_the_ids_and_places_of_all_others(tmp_path: Path) -> None:
    made = driven(tmp_path, blocks=20)
    without = with_aa_trials(expand(made, seed=3))
    found = with_aa_trials(expand(with_default_profile(made), seed=3))
    assert found.digest == without.digest
    assert found.trials[: len(without.trials)] == without.trials
    later = found.trials[len(without.trials) :]
    assert {trial.purpose for trial in later} == {"profile"}


def test_only_profiled_trials_are_shorter(tmp_path: Path) -> None:
    made = with_default_profile(driven(tmp_path, max_blocks=20))
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


def test_loads_are_profiled_as_long_as_they_take(tmp_path: Path) -> None:
    found = with_default_profile(read_text(tmp_path, LOAD))
    assert (found.profile_blocks, found.profile_s) == (1, None)


def test_default_profile_is_left_out_with_a_note_when_perf_is_unusable(tmp_path: Path) -> None:
    made = driven(tmp_path, time_s=30)
    found, note = with_profile(made)
    assert not found.profile_blocks
    assert note is not None
    assert "perf is not usable" in note
    require_profile(found)


def test_requested_profile_fails_when_perf_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = driven(tmp_path, profile_blocks=1)
    with pytest.raises(HostError, match="perf is not usable") as error:
        require_profile(wanted)
    assert "--profile-blocks 0" in (error.value.hint or "")
    monkeypatch.setattr(profile, "require_usable", lambda: None)
    require_profile(wanted)


def test_plan_shows_the_time_of_the_profiled_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(LOAD, "utf-8")
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
