"""Test A/A trials in a plan: their place and frequency, and that nothing else moves."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millrace.experiment import model
from millrace.experiment.aa_trials import aa_blocks, with_aa_trials
from millrace.experiment.plan import expand
from millrace.levels import Level
from millrace.model import run_spec
from millrace.stats import sequential
from tests.unit.experiment.test_plan import experiment

SEEDS = st.integers(0, 2**63 - 1)
TWO: dict[str, list[Level]] = {"server": ["a", "b"], "clients": [1, 8]}


@given(SEEDS, st.integers(5, 200))
def test_at_least_a_tenth_of_the_blocks_have_one_wherever_a_run_stops(seed: int, most: int) -> None:
    having = aa_blocks(seed, most)
    assert all(0 <= block < most for block in having)
    assert having & {0, 1}
    for blocks in range(2, most + 1):
        assert len([block for block in having if block < blocks]) >= blocks / 10
    assert len(having) <= most / 10 + 2


@given(SEEDS, st.integers(0, 4))
def test_few_blocks_have_none(seed: int, blocks: int) -> None:
    assert aa_blocks(seed, blocks) == frozenset()


@given(SEEDS, st.integers(5, 100), st.integers(1, 100))
def test_more_blocks_leave_the_controls_there_are(seed: int, blocks: int, more: int) -> None:
    before, after = aa_blocks(seed, blocks), aa_blocks(seed, blocks + more)
    assert before == {block for block in after if block < blocks}


@given(SEEDS, st.integers(5, 60), st.data())
def test_a_run_finds_its_controls_again(seed: int, blocks: int, data: st.DataObject) -> None:
    begun = data.draw(st.integers(0, blocks))
    wanted = aa_blocks(seed, blocks)
    first = min((block for block in wanted if block < begun), default=None)
    assert aa_blocks(seed, blocks, begun=begun, first=first) == wanted


@given(SEEDS, st.integers(1, 30))
def test_a_run_without_controls_begins_with_them_at_once(seed: int, begun: int) -> None:
    having = aa_blocks(seed, begun + 5, begun=begun)
    assert min(having) in (begun, begun + 1)


@given(SEEDS, st.integers(5, 30), st.integers(0, 2))
def test_the_plan_keeps_its_trials_and_their_order(seed: int, blocks: int, profiled: int) -> None:
    plan = expand(experiment(TWO, blocks=blocks, profile_blocks=profiled), seed=seed)
    found = with_aa_trials(plan)
    others = [trial for trial in found.trials if trial.purpose != "aa"]
    assert [replace(trial, position=0) for trial in others] == [
        replace(trial, position=0) for trial in plan.trials
    ]
    assert [trial.position for trial in found.trials] == list(range(len(found.trials)))
    assert len({trial.id for trial in found.trials}) == len(found.trials)
    aa_trials = [trial for trial in found.trials if trial.purpose == "aa"]
    having = aa_blocks(seed, blocks)
    assert {(each.block, each.treatment.levels["clients"]) for each in aa_trials} == {
        (block, clients) for block in having for clients in (1, 8)
    }
    assert {each.treatment.levels["server"] for each in aa_trials} == {"a"}
    measured = [trial.block for trial in found.trials if trial.purpose != "profile"]
    assert measured == sorted(measured)


def test_a_control_meets_every_place_in_its_block() -> None:
    places = set()
    for seed in range(60):
        trials = with_aa_trials(expand(experiment(TWO, blocks=5), seed=seed)).trials
        block = next(trial.block for trial in trials if trial.purpose == "aa")
        in_block = [trial.purpose for trial in trials if trial.block == block]
        places |= {at for at, purpose in enumerate(in_block) if purpose == "aa"}
    assert places == set(range(6))


def test_what_compares_nothing_needs_no_control() -> None:
    plan = expand(experiment({"server": ["a"], "clients": [1, 8]}, blocks=20), seed=1)
    assert with_aa_trials(plan) == plan


def test_the_numbers_are_those_of_the_statistics() -> None:
    assert run_spec.FEWEST_BLOCKS == sequential.FEWEST_VALUES
    assert model.MOST_FIXED_BLOCKS == sequential.FIRST_LOOK
