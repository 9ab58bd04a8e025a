"""Test the execution of runs in slices: rounds that are interrupted, and with failures."""

from pathlib import Path

import pytest

from millrace.model.events import TrialBegan, TrialEnded
from millrace.store.records import ROUND_FAILED, StoredRun
from tests.support.laboratory import BASE, LIKE, SLOW, Laboratory, without_instants


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch, slices=True)


def outcomes(stored: StoredRun) -> list[str | None]:
    return [attempt.outcome for attempt in stored.attempts]


@pytest.mark.parametrize("stop_after", [0, 1, 2, 3])
def test_an_interrupted_round_is_measured_again_as_a_whole(
    laboratory: Laboratory, tmp_path: Path, stop_after: int
) -> None:
    stopped = laboratory.run(blocks=2, stop_after=stop_after)
    whole = stop_after // 2
    assert outcomes(stopped) == ["finished"] * 2 * whole + ["interrupted"] * 2
    stored = laboratory.run(blocks=2)
    assert len(laboratory.measured) == 4 - 2 * whole
    assert outcomes(stored).count("finished") == 4
    other = tmp_path / "at-once"
    other.mkdir()
    at_once = Laboratory(other, laboratory.patch, slices=True).run(blocks=2)
    assert without_instants(stored).trials == without_instants(at_once).trials


def test_all_of_a_round_are_tried_again(laboratory: Laboratory) -> None:
    laboratory.fails = lambda server, block, attempt: server == SLOW and block == 1 and attempt == 1
    failed = laboratory.run(blocks=3)
    steps = {attempt.failed_step for attempt in failed.attempts if attempt.outcome == "failed"}
    assert steps == {"start", ROUND_FAILED}
    assert outcomes(failed).count("finished") == 4
    laboratory.run(blocks=3)
    assert laboratory.measured == []
    laboratory.fails = lambda *_: False
    again = laboratory.run(blocks=3, retry_failed=True)
    assert len(laboratory.measured) == 2
    assert {each.outcome for each in again.last_attempts().values()} == {"finished"}
    assert outcomes(again).count("finished") == 6


def test_who_failed_alone_keeps_its_reason_when_tried_again(laboratory: Laboratory) -> None:
    laboratory.ratios = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}
    laboratory.fails = lambda server, block, _attempt: server == SLOW and block == 1
    failed = laboratory.run(blocks=3)
    assert outcomes(failed).count("finished") == 8
    laboratory.fails = lambda *_: False
    again = laboratory.run(blocks=3, retry_failed=True)
    assert laboratory.measured == []
    assert again.attempts == failed.attempts


def test_profiled_trials_are_a_round_when_the_others_are(laboratory: Laboratory) -> None:
    laboratory.profile_blocks = 1
    stored = laboratory.run(blocks=2)
    assert [trial.purpose for trial in stored.trials].count("profile") == 2
    kinds = trial_events(laboratory)
    assert kinds == ["trial", "trial", "end", "end"] * 3


def trial_events(laboratory: Laboratory) -> list[str]:
    """Return the kinds of the events of trials."""
    return [each.event for each in laboratory.events if isinstance(each, TrialBegan | TrialEnded)]
