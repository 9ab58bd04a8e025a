"""Test the expansion of an experiment: complete blocks in random order, and stable ids."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import workloads
from millrace.experiment.groups import groups_of
from millrace.experiment.model import Compare, Experiment, Factor
from millrace.experiment.plan import digest, expand
from millrace.levels import Level
from millrace.model.run_spec import ConfigurationDefinition

LOAD_DATA = workloads.load("load-data")  # parsed once

SEEDS = st.integers(0, 2**63 - 1)
Levels = dict[str, list[Level]]
LEVELS: st.SearchStrategy[list[Level]] = st.lists(
    st.text("abc", min_size=1, max_size=3) | st.integers(0, 9), min_size=1, max_size=4, unique=True
)
FACTORS = st.dictionaries(
    st.sampled_from(["server", "engine", "replica.server", "page_size"]), LEVELS, min_size=1
)


def defined(**configurations: Any) -> dict[str, ConfigurationDefinition]:
    return {
        name: ConfigurationDefinition.model_validate(each) for name, each in configurations.items()
    }


def experiment(factors: Levels, **changes: Any) -> Experiment:
    given_factors = tuple(Factor(name, tuple(levels)) for name, levels in factors.items())
    made = Experiment(
        name="made",
        title="made",
        scale="small",
        workload=LOAD_DATA,
        configurations=defined(default={}, low={"options": {"a": 1}}, high={"extends": "low"}),
        factors=given_factors,
        compare=Compare(given_factors[0].name, given_factors[0].levels[0]),
        parameters={"rows": 10, "data_seed": 1},
        blocks=3,
        margin=0.02,
        collectors=(),
        profile_blocks=0,
        seed=None,
        published=None,
        source="made.toml",
        text="",
    )
    return replace(made, **changes)


@given(FACTORS, SEEDS, st.integers(1, 6))
def test_each_block_has_each_treatment_once(factors: Levels, seed: int, blocks: int) -> None:
    plan = expand(experiment(factors, blocks=blocks), seed=seed)
    n_treatments = 1
    for levels in factors.values():
        n_treatments *= len(levels)
    assert len(plan.treatments) == n_treatments
    counts = Counter((trial.block, trial.treatment.id) for trial in plan.trials)
    assert counts == dict.fromkeys(
        ((block, each.id) for block in range(blocks) for each in plan.treatments), 1
    )
    assert [trial.position for trial in plan.trials] == list(range(len(plan.trials)))
    assert [trial.block for trial in plan.trials] == sorted(trial.block for trial in plan.trials)


@given(FACTORS, SEEDS)
def test_ids_are_unique_and_the_same_when_expanded_again(factors: Levels, seed: int) -> None:
    plan = expand(experiment(factors), seed=seed)
    assert plan == expand(experiment(factors), seed=seed)
    assert len({each.id for each in plan.treatments}) == len(plan.treatments)
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)


@given(FACTORS, SEEDS, SEEDS)
def test_the_seed_changes_the_order_only(factors: Levels, seed: int, another: int) -> None:
    one, other = (expand(experiment(factors), seed=each) for each in (seed, another))
    assert {trial.id for trial in one.trials} == {trial.id for trial in other.trials}
    assert one.digest == other.digest


@given(FACTORS, SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_more_blocks_leave_the_earlier_ones_as_they_were(
    factors: Levels, seed: int, blocks: int, more: int
) -> None:
    before = expand(experiment(factors, blocks=blocks), seed=seed)
    after = expand(experiment(factors, blocks=blocks + more), seed=seed)
    assert after.trials[: len(before.trials)] == before.trials
    assert after.digest == before.digest


@given(FACTORS, SEEDS, st.data())
def test_more_levels_leave_ids_and_relative_order(
    factors: Levels, seed: int, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(factors)))
    place = data.draw(st.integers(0, len(factors[name])))
    more = {**factors, name: [*factors[name][:place], "new", *factors[name][place:]]}
    before = expand(experiment(factors), seed=seed)
    after = expand(experiment(more), seed=seed)
    ids = [trial.id for trial in before.trials]
    assert [trial.id for trial in after.trials if trial.id in set(ids)] == ids


@given(FACTORS, SEEDS, st.integers(1, 3), st.integers(1, 3))
def test_profiled_trials_come_last_in_complete_blocks_of_their_own(
    factors: Levels, seed: int, blocks: int, profiled: int
) -> None:
    without = expand(experiment(factors, blocks=blocks), seed=seed)
    plan = expand(experiment(factors, blocks=blocks, profile_blocks=profiled), seed=seed)
    n_measured = len(without.trials)
    assert plan.trials[:n_measured] == without.trials
    assert {trial.purpose for trial in plan.trials[n_measured:]} == {"profile"}
    counts = Counter((trial.block, trial.treatment.id) for trial in plan.trials[n_measured:])
    assert counts == dict.fromkeys(
        ((block, each.id) for block in range(profiled) for each in plan.treatments), 1
    )
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)
    assert plan.digest == without.digest


@given(FACTORS, SEEDS)
def test_in_two_blocks_each_trial_comes_before_each_other_of_its_group_once(
    factors: Levels, seed: int
) -> None:
    plan = expand(experiment(factors, blocks=2), seed=seed)
    for group in groups_of(plan.treatments, plan.experiment.compared_factors):
        ids = {each.id for each in group}
        one, other = (
            [each.treatment.id for each in plan.trials if each.block == block] for block in range(2)
        )
        assert [each for each in one if each in ids] == [
            each for each in reversed(other) if each in ids
        ]


def test_blocks_are_in_different_orders() -> None:
    plan = expand(experiment({"server": list("abcdefgh")}, blocks=20), seed=1)
    orders = {
        tuple(trial.treatment.id for trial in plan.trials if trial.block == block)
        for block in range(20)
    }
    assert len(orders) == 20


def test_every_treatment_meets_every_place_in_a_block_about_equally_often() -> None:
    plan = expand(experiment({"server": list("abcd")}, blocks=1000), seed=7)
    places = Counter((trial.treatment.id, trial.position % 4) for trial in plan.trials)
    assert len(places) == 16
    assert all(180 < count < 320 for count in places.values())  # 250 expected, s.d. 14


def test_an_aliased_level_is_another_treatment_that_runs_the_same_thing() -> None:
    aliased = Factor("server", ("a", "again"), {"again": "a"})
    plan = expand(replace(experiment({"server": ["a"]}), factors=(aliased,)), seed=1)
    one, other = plan.treatments
    assert one.id != other.id
    assert one.resolved == other.resolved
    assert (one.levels["server"], other.levels["server"]) == ("a", "again")


def test_a_default_that_is_written_out_is_the_same_treatment() -> None:
    (by_default,) = expand(experiment({"server": ["a"]}), seed=1).treatments
    (written,) = expand(experiment({"server": ["a"], "engine": ["InnoDB"]}), seed=1).treatments
    assert by_default.id == written.id
    assert by_default.resolved == written.resolved
    assert "engine" not in by_default.levels


def test_a_changed_layer_makes_another_treatment_and_an_unused_one_does_not() -> None:
    factors: Levels = {"server": ["a"], "configuration": ["high"]}
    definitions = {"low": {"options": {"a": 1}}, "high": {"extends": "low"}}

    def treatment_id(**changed: Any) -> str:
        made = experiment(factors, configurations=defined(**{**definitions, **changed}))
        return expand(made, seed=1).treatments[0].id

    assert treatment_id() == treatment_id(another={"options": {"b": 1}})
    assert treatment_id() != treatment_id(low={"options": {"a": 2}})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"blocks": 9}, True),
        ({"margin": 0.5}, True),
        ({"title": "x"}, True),
        ({"seed": 4}, True),
        ({"name": "x"}, False),
        ({"scale": "x"}, False),
        ({"parameters": {"rows": 11, "data_seed": 1}}, False),
        ({"workload": {**LOAD_DATA, "version": 2}}, False),
    ],
)
def test_the_digest_is_of_what_is_measured(changes: dict[str, Any], *, same: bool) -> None:
    made = experiment({"server": ["a"]})
    assert (digest(replace(made, **changes)) == digest(made)) is same


def test_a_plan_is_plain_data() -> None:
    plan = expand(experiment({"server": ["a"]}), seed=1)
    assert json.loads(json.dumps(plan.treatments[0].resolved))["load_mode"] == "local"
