"""Test histories as tables, sentences, JSON and a page."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.history.overview import ChangeGroup, SeriesView, group_changes, series_view
from millrace.report.history import (
    SPARKS,
    HistoryDocument,
    as_html,
    as_json,
    changes_table,
    group_text,
    history_chart,
    next_step,
    series_row,
    sparkline,
    state_text,
)
from millrace.store.history_records import ChangeRecord, Remeasured
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
from tests.support.known import known

AGAIN = Remeasured("run-c", "v39", "v40", 0.88, 0.86, 0.90, 8, "regression", "because", NOW)
FACT = change(40, state="confirmed", remeasured=AGAIN)
CHANGES = (
    change(20, 0.95, width=1),
    FACT,
    change(60, 1.2, note="wanted: MDEV-1 <b>"),
    change(70, 0.8, state="withdrawn", reason="80 points do not show it any more"),
)


def shown(*changes: ChangeRecord) -> SeriesView:
    states = [STATE.id] * 50 + [OTHER_STATE.id] * 30
    return series_view(
        history(stepping((40, 0.9)), states), changes, STATES, "nightly · throughput"
    )


def grouped(series: Sequence[SeriesView]) -> tuple[ChangeGroup, ...]:
    return group_changes(
        [change for one in series for change in one.changes], {("local", "v40"): 12}
    )


def test_only_a_fact_is_called_confirmed() -> None:
    (small,) = shown(change(20, 0.995, low=0.99, high=0.999)).changes
    assert state_text(small) == "? candidate, within the margin"


def test_group_has_number_of_series_and_sizes() -> None:
    others = [replace(SERIES, id=f"s{number}") for number in range(2)]
    made = [
        shown(change(40, 0.96)),
        *(
            series_view(history(stepping(), series=of), [change(40, ratio, series=of)], STATES, "x")
            for of, ratio in zip(others, (0.81, 0.9), strict=True)
        ),
    ]
    (group,) = grouped(made)
    assert group_text(group) == "v40: 3 of 12 series, −4.0 % to −19.0 % (3 candidates)"
    (fact, *_) = grouped([shown(FACT)])
    assert group_text(fact) == "v40: 1 of 12 series, −12.0 % (1 confirmed)"


def test_table_colours_states() -> None:
    series = shown(*CHANGES)
    rest = [each for each in series.changes if not each.is_open]
    table = known(changes_table(grouped([series]), rest))
    assert [section.rows[0].verdict for section in table.sections] == [
        "regression", "inconclusive", "inconclusive", "no verdict",
    ]  # fmt: skip
    assert changes_table((), ()) is None


def test_candidates_ask_for_a_measurement() -> None:
    step = known(next_step(shown(*CHANGES).changes))
    assert step.startswith("2 candidates, no fact yet: `millrace history confirm c20-")
    assert next_step(shown(FACT).changes) is None


def test_a_row_has_the_newest_point_and_its_course() -> None:
    row = series_row(shown(FACT, change(60, 1.2)))
    assert row.cells[:3] == ("nightly · throughput", "80", "v79")
    assert len(row.cells[5]) == 24
    assert row.cells[6] == "▼ 1 confirmed, ? 1 candidate"
    assert row.verdict == "regression"
    assert series_row(shown()).cells[6] == "–"


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40), st.floats(0.001, 0.5))
def test_any_course_is_drawn(values: list[float], margin: float) -> None:
    line = sparkline(values, margin)
    assert len(line) == min(len(values), 24)
    assert set(line) <= set(SPARKS)


def test_noise_within_the_margin_hardly_moves() -> None:
    calm = sparkline([1.0, 1.001, 0.999, 1.0] * 4, 0.02)
    assert len({SPARKS.index(spark) for spark in calm}) <= 2
    stepped = sparkline([1.0] * 8 + [0.8] * 8, 0.02)
    assert SPARKS.index(stepped[0]) - SPARKS.index(stepped[-1]) >= 6


def test_the_chart_has_a_line_a_state_and_marks_that_say_what_they_are() -> None:
    drawn = history_chart(shown(*CHANGES))
    assert [len(line.marks) for line in drawn.chart.lines] == [50, 30]
    assert len(drawn.chart.across) <= 8
    assert [each.text for each in drawn.environment_changes] == ["break"]
    assert [each.text for each in drawn.changes] == [
        "? candidate", "▼ confirmed", "? candidate", "✕ withdrawn",
    ]  # fmt: skip
    assert "kernel release was 6.1 and is 6.2" in drawn.environment_changes[0].title
    first_of_new = drawn.chart.lines[1].marks[0].x
    assert drawn.chart.lines[0].marks[-1].x < drawn.environment_changes[0].x < first_of_new
    assert all(0 <= mark.x <= 100 for line in drawn.chart.lines for mark in line.marks)


def test_page_has_no_script_and_states_what_is_confirmed() -> None:
    series = [shown(*CHANGES)]
    page = as_html(series, grouped(series))
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert page.count('class="plot"') == 1
    assert page.count('class="marker break"') == 1
    assert "Nothing of it is confirmed yet" not in page
    hopeful = [shown(change(40))]
    assert "Nothing of it is confirmed yet" in as_html(hopeful, grouped(hopeful))
    assert "No level moved." in as_html([shown()], ())


def few(n_points: int, *, states: bool = False) -> SeriesView:
    """Return this many points, every second one in another environment."""
    ids = [(STATE.id, OTHER_STATE.id)[states and number % 2] for number in range(n_points)]
    return series_view(history(stepping(n=n_points), ids), (), STATES, "nightly · throughput")


@pytest.mark.parametrize("series", [few(2), few(7), few(14, states=True)])
def test_too_few_points_of_a_state_tell_nothing(series: SeriesView) -> None:
    said = "There are too few points to tell whether a level moved: 8 of one state of host"
    assert said in as_html([series], ())
    assert series_row(series).cells[-1] == "too few points"
    assert json.loads(as_json([series], (), STATES))["series"][0]["too_few_points"] is True
    both = as_html([series, shown()], ())
    assert "No level moved; 1 series has too few points" in both


def test_page_with_changes_counts_series_with_too_few_points() -> None:
    hopeful = [shown(change(40)), few(2)]
    said = "Nothing of it is confirmed yet. 1 series has too few points to tell: 8 of one state"
    assert said in as_html(hopeful, grouped(hopeful))
    assert "too few points" not in as_html(hopeful[:1], grouped(hopeful[:1]))


def test_as_many_points_as_two_levels_need_are_enough() -> None:
    assert "No level moved." in as_html([few(8)], ())
    assert series_row(few(16, states=True)).cells[-1] != "too few points"


def test_json_keeps_its_schema() -> None:
    series = [shown(*CHANGES)]
    text = as_json(series, grouped(series), STATES)
    document = HistoryDocument.model_validate_json(text, strict=True)
    raw = json.loads(text)
    assert raw["schema"] == "millrace.history/2"
    (one,) = document.series
    assert [each.state for each in one.changes] == [
        "candidate", "confirmed", "candidate", "withdrawn",
    ]  # fmt: skip
    fact = one.changes[1]
    assert (fact.ratio, fact.found_ratio, fact.index) == (0.88, 0.9, 40)
    assert one.changes[0].within == ["v19", "v20", "v21"]
    assert [(each.index, each.label) for each in one.environment_changes] == [(50, "v50")]
    assert [len(one.points), len(document.states)] == [80, 2]
    assert {state.id for state in document.states} == {point.state for point in one.points}
    assert next(group.changes for group in document.groups) == [FACT.id]


@pytest.mark.parametrize("points", [1, 2, 300])
def test_short_and_long_series_have_a_chart(points: int) -> None:
    made = series_view(history(stepping(n=points)), [], STATES, "name")
    page = as_html([made], ())
    assert page.count('class="sign"') == points
