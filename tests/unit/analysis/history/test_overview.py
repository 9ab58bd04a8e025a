"""Test the display of series and their changes, and the grouping of changes at one label."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.history.overview import ChangeView, group_changes, series_view
from millrace.store.history_records import ChangeRecord, Remeasured, SeriesRecord
from tests.support.history_points import (
    NOW,
    OTHER_STATE,
    SERIES,
    STATE,
    STATES,
    change,
    history,
    stepping,
)

LATENCY = replace(SERIES, id="1a7e", metric="p95", title="95th percentile", direction="lower")
AGAIN = Remeasured("run-c", "v39", "v40", 0.88, 0.86, 0.90, 8, "regression", "because", NOW)


def shown(*changes: ChangeRecord, series: SeriesRecord = SERIES) -> tuple[ChangeView, ...]:
    return series_view(history(stepping(), series=series), changes, STATES, "a name").changes


def test_a_series_has_its_changes_in_the_order_of_its_points() -> None:
    states = [STATE.id] * 50 + [OTHER_STATE.id] * 30
    made = replace(history(stepping(), states), examined=70)
    found = series_view(made, [change(60), change(200), change(20, 1.1)], STATES, "a name")
    assert [each.index for each in found.changes] == [20, 60, None]
    assert [each.verdict for each in found.changes] == ["improvement", "regression", "regression"]
    assert [each.index for each in found.environment_changes] == [50]
    assert found.unexamined == 10
    assert (found.name, found.points) == ("a name", made.points)


def test_confirmed_change_has_measured_ratio_and_candidate_the_found_one() -> None:
    fact = change(40, 0.8, state="confirmed", remeasured=AGAIN)
    undecided = change(60, 0.8, remeasured=replace(AGAIN, verdict="inconclusive"))
    one, other = shown(fact, undecided)
    assert (one.ratio, one.low, one.high) == (0.88, 0.86, 0.90)
    assert other.ratio == 0.8


def test_where_lower_is_better_more_is_a_loss() -> None:
    (slower,) = shown(change(40, 1.25, series=LATENCY), series=LATENCY)
    assert slower.verdict == "regression"
    assert slower.gain == pytest.approx(-0.2)


def test_changes_of_many_series_at_one_label_are_a_group() -> None:
    series = [replace(SERIES, id=f"s{number}") for number in range(3)]
    changes = [
        *shown(change(40, 0.81, series=series[0]), series=series[0]),
        *shown(change(40, 0.96, series=series[1]), series=series[1]),
        *shown(change(41, 0.90, width=1, series=series[2]), series=series[2]),
        *shown(change(60, 1.20, series=series[2]), series=series[2]),
    ]
    first, second = group_changes(changes, {("local", "v40"): 12, ("local", "v60"): 12})
    assert (first.label, len(first.changes), first.n_series) == ("v40", 3, 12)
    assert [first.least, first.most] == pytest.approx([-0.04, -0.19])
    assert (second.label, len(second.changes)) == ("v60", 1)


def test_withdrawn_and_small_changes_are_in_no_group() -> None:
    small = change(20, 0.995, low=0.99, high=0.999)
    assert group_changes(shown(change(40, state="withdrawn"), small), {}) == ()


@given(
    st.lists(
        st.tuples(st.integers(3, 76), st.integers(0, 3), st.floats(0.5, 0.9)),
        max_size=12,
        unique_by=lambda each: each[0],
    )
)
def test_each_open_change_is_in_one_group(places: list[tuple[int, int, float]]) -> None:
    changes = shown(*(change(index, ratio, width=width) for index, width, ratio in places))
    found = group_changes(changes, {})
    grouped = [each.change.id for group in found for each in group.changes]
    assert sorted(grouped) == sorted(each.change.id for each in changes)
    for group in found:
        assert all(group.label in each.within for each in group.changes)
        assert abs(group.least) <= abs(group.most)


def test_facts_come_first_and_what_is_known_last() -> None:
    series = [replace(SERIES, id=f"s{number}") for number in range(2)]
    other = replace(AGAIN, before="v19", after="v20")
    fact = change(40, state="confirmed", remeasured=AGAIN)
    changes = [
        *shown(fact, change(60), series=series[0]),
        *shown(change(60, series=series[1]), series=series[1]),
        *shown(change(20, state="confirmed", remeasured=other, note="known")),
    ]
    assert [group.label for group in group_changes(changes, {})] == ["v40", "v60", "v20"]
