"""Test what makes an answer doubtful: the host's disturbances, and the base against itself."""

import json
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.conditions import DisturbedBlocks
from millrace.analysis.compare.model import AaTrials, RunAnalysis
from millrace.model import measurements
from millrace.model.observations import Observations
from millrace.report.run import notes
from millrace.report.run.doubts import aa_text, doubts
from millrace.report.run.formats import render
from millrace.store.records import MeasurementRecord, StoredRun
from tests.support.builders import noisy
from tests.support.known import known
from tests.support.reports import one_line
from tests.support.sequential_runs import BASE, run_of, with_aa_trials

SLOW = "mysql-5.7.22"
DECIDED = run_of({BASE: noisy(4, 6), SLOW: noisy(8, 6, seed=2)})
TOLD = ("terminal", "markdown", "html")
OTHERS = "other processes used 35.1% of the CPU time, mysqld (pid 8956) the most"
STEAL = "the hypervisor gave 3.1% of the CPU time to others"


def words(found: RunAnalysis, output_format: str) -> str:
    return one_line(render(found, output_format))


def aa_trials(ratios: dict[int, float]) -> AaTrials:
    return known(compare_run(with_aa_trials(DECIDED, ratios)).aa_trials)


def test_the_base_against_itself_in_words() -> None:
    three = aa_trials({0: 1.0, 2: 1.0, 4: 1.01})
    interval = f"({known(three.estimate).low:.3f} to {known(three.estimate).high:.3f})"
    assert aa_text(three) == f"the base against itself: 1.003 {interval} in 3 blocks"
    # A sequential run has looked more than once: two pairs give no interval then.
    for ratios, text in (
        ({0: 1.0, 4: 1.01}, "1.005 in 2 blocks"),
        ({0: 1.0}, "1.000 in 1 block"),
        ({0: 0.0}, "none of 1 A/A trial has a pair yet"),
    ):
        assert aa_text(aa_trials(ratios)) == f"the base against itself: {text}"


def test_a_base_like_itself_is_a_condition() -> None:
    alike = compare_run(with_aa_trials(DECIDED, {0: 1.0, 4: 1.01}))
    assert doubts(alike) == []
    assert [line for line in notes.conditions(alike) if "against itself" in line]


@pytest.mark.parametrize(
    ("ratios", "figures"),
    [({0: 1.05, 2: 1.051, 4: 1.049}, "that excludes 1"), ({0: 0.83}, "(0.83")],
)
def test_a_base_apart_from_itself_stands_before_the_results(
    ratios: dict[int, float], figures: str
) -> None:
    other = compare_run(with_aa_trials(DECIDED, ratios))
    (doubt,) = doubts(other)
    assert figures in doubt
    assert "of that size may be this host's own" in doubt
    assert not [line for line in notes.conditions(other) if "against itself" in line]
    for output_format in TOLD:
        text = words(other, output_format)
        assert text.index("doubtful: the base against itself was ") < text.index("CV")
    assert json.loads(render(other, "json"))["doubts"] == [doubt]


def test_slices_are_not_doubted_for_what_whole_trials_do() -> None:
    found = compare_run(with_aa_trials(DECIDED, {0: 1.4, 2: 1.3}))
    (group,), aa = found.groups, found.aa_trials
    assert aa is not None
    (apart,) = aa.groups
    alike = aa_trials({0: 1.0, 2: 1.001})
    treatments = tuple(
        replace(each, id=f"{each.id}-sliced", in_slices=True) for each in group.treatments
    )
    mixed = replace(
        found,
        groups=(group, replace(group, treatments=treatments)),
        aa_trials=replace(
            aa,
            groups=(
                replace(apart, label="update-index"),
                replace(alike.groups[0], label="point-query", base_id=treatments[0].id),
            ),
        ),
    )
    (doubt,) = doubts(mixed)
    assert doubt.startswith(
        "the base against itself was 34.9 % apart in update-index (1.349, in 2 "
    )


def disturbed(stored: StoredRun, blocks: int, clause: str) -> StoredRun:
    """Return the run with a disturbance in the trials of its first blocks."""
    chosen = {trial.id for trial in stored.trials if trial.block < blocks}
    observed = Observations.model_validate({"host": {"disturbed": [clause]}})
    attempts = (
        replace(attempt, observations=observed) if attempt.trial_id in chosen else attempt
        for attempt in stored.attempts
    )
    return replace(stored, attempts=tuple(attempts))


def test_disturbed_blocks_are_counted_beside_the_answer() -> None:
    found = compare_run(disturbed(DECIDED, 4, OTHERS))
    assert found.disturbed == DisturbedBlocks(4, 6, (OTHERS,) * 8)
    usable = "the result is usable: its intervals include that noise, though no A/A trial checks it"
    assert doubts(found) == [f"4 of 6 blocks were disturbed by other processes; {usable}"]
    one = compare_run(disturbed(DECIDED, 1, STEAL))
    assert doubts(one) == [f"1 of 6 blocks was disturbed by what else the host did; {usable}"]
    for output_format in TOLD:
        assert "doubtful: 4 of 6 blocks were disturbed" in words(found, output_format)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ({0: 1.0, 2: 1.0, 4: 1.01}, "the result is usable: its intervals include that noise"),
        ({0: 1.4, 2: 1.3}, "do not use small differences of it"),
    ],
)
def test_disturbed_result_is_usable_when_the_base_is_like_itself(
    ratios: dict[int, float], said: str
) -> None:
    quiet = compare_run(with_aa_trials(DECIDED, ratios))
    found = replace(quiet, disturbed=DisturbedBlocks(4, 6, (OTHERS,) * 8))
    (disturbance, *_) = doubts(found)
    assert said in disturbance
    assert "A/A trial" not in disturbance


def test_what_disturbs_a_round_is_no_doubt() -> None:
    slices = MeasurementRecord(measurements.SLICES, 1000.0)
    stored = disturbed(DECIDED, 4, OTHERS)
    attempts = (
        replace(each, measurements=(*each.measurements, slices)) for each in stored.attempts
    )
    found = compare_run(replace(stored, attempts=tuple(attempts)))
    assert found.disturbed == DisturbedBlocks(0, 0, ())
    assert doubts(found) == []


def test_nothing_is_doubtful_where_nothing_was_compared() -> None:
    assert doubts(compare_run(disturbed(run_of({BASE: noisy(4, 3)}), 3, OTHERS))) == []
