"""Test the outcome of measuring the builds before and after a change again."""

from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.history.confirmation import Ends, Outcome, outcome
from millrace.store.history_records import ChangeRecord, SeriesRecord
from millrace.store.records import StoredRun
from tests.support.builders import Fails, RunBuilder, noisy
from tests.support.history_points import CANDIDATE, NOW, REFERENCE, SERIES, change, run_of
from tests.support.known import known, limits

SPEED = replace(SERIES, metric="throughput", title="throughput")
TIME = replace(SERIES, metric="time", title="time", direction="lower")
ENDS = Ends("v39", "v40")


def settled(
    stored: StoredRun, found: ChangeRecord | None = None, series: SeriesRecord = SPEED
) -> Outcome:
    return known(outcome(stored, found or change(40, 0.9), series, ENDS, NOW))


def test_the_same_change_again_is_a_fact() -> None:
    result = settled(run_of("c1", ratio=0.85, blocks=8))
    again = known(result.change.remeasured)
    assert (result.change.state, result.change.reason, result.more_blocks) == ("confirmed", "", 0)
    assert (again.run_id, again.before, again.after, again.n_blocks) == ("c1", "v39", "v40", 8)
    low, high = limits(again)
    assert low < 0.85 < high
    assert (again.verdict, again.utc) == ("regression", NOW)
    assert result.change.ratio == 0.9  # the ratio in the history


def test_where_lower_is_better_a_higher_ratio_is_confirmed_as_a_regression() -> None:
    result = settled(run_of("c1", ratio=0.85, blocks=8), change(40, 1.15, series=TIME), TIME)
    assert result.change.state == "confirmed"
    assert known(result.change.remeasured).ratio == pytest.approx(1 / 0.85, rel=0.02)


@pytest.mark.parametrize(("ratio", "why"), [(1.0, "inside 2 %"), (1.2, "improvement")])
def test_no_change_and_the_opposite_one_withdraw_it(ratio: float, why: str) -> None:
    result = settled(run_of("c1", ratio=ratio, blocks=16))
    assert result.change.state == "withdrawn"
    assert result.change.reason.startswith("measured again: ")
    assert why in result.change.reason


def test_too_few_blocks_leave_a_candidate_and_say_how_many_more() -> None:
    result = settled(run_of("c1", ratio=0.96, blocks=4))
    assert result.change.state == "candidate"
    assert known(result.change.remeasured).verdict == "inconclusive"
    assert known(result.more_blocks) > 0
    enough = settled(run_of("c1", ratio=0.96, blocks=4 + known(result.more_blocks) + 4))
    assert enough.change.state == "confirmed"


def test_the_interval_holds_for_any_number_of_looks() -> None:
    again = settled(run_of("c1", ratio=0.85, blocks=8)).change.remeasured
    once = run_of("c1", ratio=0.85, blocks=8)
    low, high = limits(known(again))
    fixed = known(compare_run(once).comparisons()[0].estimate)
    if fixed.looks == "once":
        assert high - low > known(fixed.high) - known(fixed.low)


def test_outcome_is_none_without_a_block_of_both() -> None:
    failed = RunBuilder({REFERENCE: noisy(3.0, 3), CANDIDATE: [Fails()] * 3}).build()
    assert outcome(failed, change(40), SPEED, ENDS, NOW) is None
    other_metric = replace(SPEED, metric="no_such_metric")
    assert outcome(run_of("c1"), change(40), other_metric, ENDS, NOW) is None
