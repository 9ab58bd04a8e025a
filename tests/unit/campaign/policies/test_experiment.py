"""Test runs block by block: balanced, within their limits, resumed, and what they announce."""

from pathlib import Path

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.model.events import BlockEnded, RunAssessed
from millrace.model.run_spec import Design
from millrace.store.records import StoredRun
from tests.support.laboratory import (
    BASE,
    BROKEN,
    LIKE,
    SLOW,
    TRIAL_S,
    Laboratory,
    blocks_of,
    without_instants,
)

NOISY = 0.05  # ten blocks decide nothing near the margin


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch)


@pytest.fixture
def open_lab(lab: Laboratory) -> Laboratory:
    """Return a laboratory in which nothing is decided."""
    lab.ratios, lab.spread = {BASE: 1.0, LIKE: 1.0}, NOISY
    return lab


def verdicts(stored: StoredRun) -> dict[str, str | None]:
    return {str(c.candidate): c.verdict for c in compare_run(stored).comparisons()}


def test_a_large_difference_ends_a_run_early(lab: Laboratory) -> None:
    stored = lab.run()
    assert blocks_of(stored) == {BASE: [0, 1, 2], SLOW: [0, 1, 2]}
    assert stored.run.blocks == 3
    assert stored.run.design == Design(kind="sequential", blocks=10)
    assert verdicts(stored) == {SLOW: "regression"}
    assert lab.run() == stored  # nothing left to do
    assert lab.measured == []
    assert lab.progress().ending == "closed"


def test_what_is_decided_drops_out_and_the_base_stays(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}, 0.02
    stored = lab.run()
    found = blocks_of(stored)
    assert found[BASE] == found[LIKE] == list(range(10))
    assert found[SLOW] == list(range(len(found[SLOW])))
    assert 3 <= len(found[SLOW]) < 10
    assert [trial.position for trial in stored.trials] == list(range(len(stored.trials)))
    assert [trial.block for trial in stored.trials] == sorted(t.block for t in stored.trials)


@pytest.mark.parametrize("seed", range(4))
def test_no_run_passes_its_limit_and_each_has_a_control(lab: Laboratory, seed: int) -> None:
    lab.ratios, lab.spread, lab.seed = {BASE: 1.0, LIKE: 1.0}, NOISY, seed
    stored = lab.run(max_blocks=7)
    assert blocks_of(stored) == {BASE: list(range(7)), LIKE: list(range(7))}
    aa_trials = blocks_of(stored, "aa")
    assert aa_trials[LIKE] == []
    assert aa_trials[BASE][0] in (0, 1)
    assert lab.progress(max_blocks=7).ending == "blocks"


INTERRUPTED: dict[str, float] = {BASE: 1.0, SLOW: 1.5, LIKE: 1.0}


@pytest.fixture(scope="module")
def at_once(own_places: Path) -> StoredRun:
    """Return the run that is interrupted in the next test, as it is if nobody does."""
    place = own_places / "at-once"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        return Laboratory(place, patch, INTERRUPTED, spread=0.02).run()


@pytest.mark.parametrize("stop_after", [0, 1, 2, 3, 5, 8, 9, 14])
def test_an_interrupted_run_goes_on_as_it_would_have(
    lab: Laboratory, at_once: StoredRun, stop_after: int
) -> None:
    lab.ratios, lab.spread = INTERRUPTED, 0.02
    stopped = lab.run(stop_after=stop_after)
    assert sum(attempt.outcome == "finished" for attempt in stopped.attempts) == stop_after
    found = lab.run()
    assert len({run.run.id for run in (stopped, found)}) == 1
    assert without_instants(found) == without_instants(at_once)


def test_a_run_can_be_stopped_in_every_block(open_lab: Laboratory) -> None:
    stored = open_lab.run(stop_after=1, max_blocks=6)
    while open_lab.progress(max_blocks=6).ending is None:
        stored = open_lab.run(stop_after=1, max_blocks=6)
    assert blocks_of(stored)[LIKE] == list(range(6))
    assert len(blocks_of(stored, "aa")[BASE]) == 1


def test_a_larger_limit_goes_on_and_is_recorded(open_lab: Laboratory) -> None:
    first = open_lab.run(max_blocks=6)
    more = open_lab.run(max_blocks=8)
    assert more.run.id == first.run.id
    assert blocks_of(more)[LIKE] == list(range(8))
    assert more.run.design == Design(kind="sequential", blocks=8)
    assert len(more.run.spec.extensions or ()) == 1
    assert more.trials[: len(first.trials)] == first.trials
    assert open_lab.run(max_blocks=6) == more  # less changes nothing


def test_an_exact_number_extends_what_stopped_early(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}, 0.02
    first = lab.run(max_blocks=6)
    dropped = len(blocks_of(first)[SLOW])
    assert dropped < 6
    more = lab.run(blocks=8)
    assert more.run.id == first.run.id
    assert more.run.design == Design(kind="fixed", blocks=8)
    assert blocks_of(more) == {
        BASE: list(range(8)), SLOW: [*range(dropped), 6, 7], LIKE: list(range(8))
    }  # fmt: skip
    assert compare_run(more).holds_for == "any"


def test_an_exact_number_has_all_treatments_in_all_blocks(lab: Laboratory) -> None:
    stored = lab.run(blocks=6)
    assert blocks_of(stored) == {BASE: list(range(6)), SLOW: list(range(6))}
    assert len(blocks_of(stored, "aa")[BASE]) == 1
    assert compare_run(stored).holds_for == "once"


def test_a_fixed_run_that_was_stopped_can_go_on_block_by_block(open_lab: Laboratory) -> None:
    stopped = open_lab.run(blocks=9, stop_after=3)
    assert stopped.run.blocks == 9
    found = open_lab.run(max_blocks=6)
    assert found.run.id == stopped.run.id
    assert blocks_of(found) == {BASE: list(range(6)), LIKE: list(range(6))}
    assert found.run.blocks == 6
    assert compare_run(found).holds_for == "any"


def test_no_block_starts_that_would_exceed_the_time_limit(open_lab: Laboratory) -> None:
    limit_s = 10.5 * TRIAL_S  # four blocks of two trials and an A/A trial, but not five
    stored = open_lab.run(max_time_s=limit_s)
    assert blocks_of(stored)[LIKE] == [0, 1, 2, 3]
    assert open_lab.progress(max_time_s=limit_s).ending == "time"
    assert open_lab.run(max_time_s=limit_s) == stored
    more = open_lab.run(max_time_s=limit_s + 2 * TRIAL_S)
    assert blocks_of(more)[LIKE] == [0, 1, 2, 3, 4]


def test_what_always_fails_is_given_up_and_can_be_tried_again(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, BROKEN: 1.0}, NOISY
    lab.fails = lambda server, _block, _attempt: server == BROKEN
    stored = lab.run(max_blocks=8)
    assert blocks_of(stored) == {BASE: [0, 1, 2], BROKEN: [0, 1, 2]}
    assert verdicts(stored) == {BROKEN: "failed"}
    assert lab.run(max_blocks=8) == stored
    lab.fails = lambda _server, _block, _attempt: False
    again = lab.run(max_blocks=8, retry_failed=True)
    assert blocks_of(again)[BROKEN] == list(range(8))
    assert not compare_run(again).failures


def test_a_trial_that_fails_once_is_not_repeated_in_the_same_run(open_lab: Laboratory) -> None:
    open_lab.fails = lambda server, block, _attempt: server == LIKE and block == 2
    stored = open_lab.run(max_blocks=6, retry_failed=True)
    assert [attempt.outcome for attempt in stored.attempts].count("failed") == 1
    assert len(open_lab.measured) == len(set(open_lab.measured)) == len(stored.trials)


def test_profiled_trials_come_after_the_last_block_however_it_ended(lab: Laboratory) -> None:
    lab.profile_blocks = 2
    stored = lab.run()
    assert [trial.purpose for trial in stored.trials][-4:] == ["profile"] * 4
    assert blocks_of(stored, "profile") == {BASE: [0, 1], SLOW: [0, 1]}
    assert stored.run.blocks == 3
    assert lab.run() == stored


def test_each_assessment_lists_decided_and_open_comparisons(lab: Laboratory) -> None:
    lab.ratios, lab.spread = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}, 0.02
    stored = lab.run(max_blocks=8)
    looks = [event for event in lab.events if isinstance(event, RunAssessed)]
    assert [event.blocks for event in looks] == list(range(9))
    closed = [(event.blocks, each.label) for event in looks for each in event.closed]
    dropped = len(blocks_of(stored)[SLOW])
    assert closed[0] == (dropped, SLOW)
    assert [event.open for event in looks[1 : dropped + 1]] == [2] * (dropped - 1) + [1]
    assert all(event.about_s <= event.at_most_s for event in looks)
    at_most = [event.at_most_trials for event in looks]
    assert at_most == sorted(at_most, reverse=True)
    assert (looks[-1].at_most_s, at_most[-1]) == (0, 0)
    measured = sum(trial.block >= dropped for trial in stored.trials)
    assert looks[dropped].at_most_s == pytest.approx(measured * TRIAL_S)


@pytest.mark.parametrize(("fit", "n_last"), [(20, 8), (13, 6), (6, None)])
def test_the_first_intervals_tell_what_the_last_block_that_fits_will_show(
    open_lab: Laboratory, fit: int, n_last: int | None
) -> None:
    open_lab.run(max_blocks=8, max_time_s=fit * TRIAL_S)
    looks = [event for event in open_lab.events if isinstance(event, RunAssessed)]
    assert looks[1].ended_trials + looks[1].at_most_trials <= fit + 1
    ahead = {event.blocks: event.visible for event in looks if event.visible is not None}
    assert [each.blocks for each in ahead.values()] == ([] if n_last is None else [n_last])
    assert all(0 < each.smallest == each.largest for each in ahead.values())


def test_unfinished_block_is_not_reported_as_ended(open_lab: Laboratory) -> None:
    stopped = open_lab.run(stop_after=4)
    begun = stopped.run.blocks
    open_lab.events.clear()
    open_lab.run()
    looks = [event.blocks for event in open_lab.events if isinstance(event, RunAssessed)]
    assert looks == list(range(begun - 1, 11))


THREE = {BASE: 1.0, LIKE: 1.0, SLOW: 2.0}


def block_ends(lab: Laboratory) -> list[BlockEnded]:
    return [event for event in lab.events if isinstance(event, BlockEnded)]


@pytest.mark.parametrize(("profile_blocks", "last"), [(0, 3), (2, 4)])
def test_each_block_but_the_last_emits_an_assessment(
    lab: Laboratory, profile_blocks: int, last: int
) -> None:
    lab.ratios, lab.profile_blocks = THREE, profile_blocks
    lab.run(blocks=4)
    found = block_ends(lab)
    assert [(event.blocks, event.total) for event in found] == [
        (block, 4) for block in range(1, last + 1)
    ]
    for event in found:
        assert [each.label for each in event.ratios] == [SLOW, LIKE]
        assert event.ratios[0].ratio == pytest.approx(0.5, rel=0.05)
    assert found[0].ratios[0].low is None  # of one block
    third = found[2].ratios[0]
    assert (third.low or 1) < 0.5 < (third.high or 0)
    ahead = found[2].visible
    assert ahead is not None
    assert ahead.blocks == 4
    assert 0 < ahead.smallest <= ahead.largest < 1
    assert [each.visible for each in found if each.blocks != 3] == [None] * (last - 1)


def test_resumed_run_assesses_only_measured_blocks(lab: Laboratory) -> None:
    lab.ratios = THREE
    lab.run(blocks=4, stop_after=7)
    lab.events.clear()
    lab.run(blocks=4)
    assert [event.blocks for event in block_ends(lab)] == [3]
    lab.events.clear()
    lab.run(blocks=4)
    assert block_ends(lab) == []
