"""Test histories in the store: one point per series and label, in order of dates; kept changes."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from millrace.errors import UserError
from millrace.levels import Level
from millrace.store.history_records import (
    ChangeRecord,
    HistoryPart,
    PointRecord,
    Recorded,
    Remeasured,
    SeriesRecord,
    StateRecord,
    as_imported,
)
from millrace.store.store import Store
from tests.support.history_points import (
    NOW,
    OTHER_STATE,
    SERIES,
    STATE,
    change,
    history,
    part,
    part_of,
    point,
)
from tests.support.stored_records import begin, dead

OTHER = replace(SERIES, id="07e7", metric="p95", direction="lower")


def labels(store: Store) -> list[str]:
    (only,) = store.histories.read()
    return [each.label for each in only.points]


def test_points_come_back_as_they_were_recorded(store: Store) -> None:
    made = history([1.0, 0.9, 0.95], [STATE.id, OTHER_STATE.id, STATE.id])
    for each in part_of(made):
        assert store.histories.record(each) == Recorded(1, 0, 0, {})
    assert list(store.histories.read()) == [made]
    assert store.histories.series() == [SERIES]
    assert store.histories.states() == {STATE.id: STATE, OTHER_STATE.id: OTHER_STATE}
    assert [each.run_id for each in store.histories.recordings()] == ["run-0", "run-1", "run-2"]


def test_points_are_in_the_order_of_dates_then_of_recording(store: Store) -> None:
    may, june = "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"
    for number, date in ((2, june), (7, may), (1, june), (4, may)):
        store.histories.record(part(point(number, 1.0, at_utc=date)))
    assert labels(store) == ["v7", "v4", "v2", "v1"]


def test_points_of_one_run_are_in_the_order_of_their_levels(store: Store) -> None:
    own = [point(n, 1.0, run_id="r", at_utc=NOW, place=n) for n in (2, 0, 1)]
    store.histories.record(part(*own))
    assert labels(store) == ["v0", "v1", "v2"]


def test_a_run_that_is_recorded_twice_is_not_two_points(store: Store) -> None:
    own = point(1, 0.9)
    store.histories.record(part(own))
    assert store.histories.record(part(own)) == Recorded(0, 0, 1, {})
    # A date or a ratio is not a reason to replace a point; more blocks are.
    assert store.histories.record(part(replace(own, at_utc=NOW))) == Recorded(0, 0, 1, {})
    more = replace(own, ratio=0.91, n_blocks=8)
    assert store.histories.record(part(more)) == Recorded(0, 1, 0, {})
    (only,) = store.histories.read()
    assert only.points == (more,)


def test_a_run_that_has_more_levels_now_adds_them(store: Store) -> None:
    first, second = (point(n, 1.0, run_id="r", at_utc=NOW, place=n) for n in (0, 1))
    store.histories.record(part(first))
    assert store.histories.record(part(first, second)) == Recorded(1, 1, 0, {})
    assert labels(store) == ["v0", "v1"]


def test_a_run_under_another_label_is_refused(store: Store) -> None:
    own = point(1, 0.9)
    store.histories.record(part(own))
    with pytest.raises(UserError, match="run run-1 is recorded already, as v1") as caught:
        store.histories.record(part(replace(own, label="v2")))
    assert "history forget run-1" in (caught.value.hint or "")
    assert labels(store) == ["v1"]


def test_labels_that_another_run_has_are_passed_over(store: Store) -> None:
    store.histories.record(part(point(1, 0.9)))
    again = [point(n, 0.8, run_id="late", at_utc=NOW, place=n) for n in (1, 2)]
    assert store.histories.record(part(*again)) == Recorded(1, 0, 0, {"run-1": 1})
    (only,) = store.histories.read()
    assert [(each.label, each.run_id) for each in only.points] == [("v1", "run-1"), ("v2", "late")]
    assert store.histories.record(part(point(2, 0.8, run_id="x"))) == Recorded(0, 0, 0, {"late": 1})
    assert "x" not in {each.run_id for each in store.histories.recordings()}
    # In another series the label is free.
    assert store.histories.record(part(point(2, 0.8, run_id="x"), series=OTHER)).added == 1


def test_the_margin_of_a_series_is_that_of_its_newest_run(store: Store) -> None:
    store.histories.record(part(point(1, 0.9)))
    store.histories.record(part(point(2, 0.9), series=replace(SERIES, margin=0.05)))
    assert [each.margin for each in store.histories.series()] == [0.05]


def test_what_is_forgotten_can_be_recorded_anew(store: Store) -> None:
    store.histories.record(part(point(1, 0.9)))
    store.histories.record(part(point(2, 0.8), series=OTHER))
    store.histories.keep([change(2, series=OTHER)])
    assert store.histories.forget("run-2") == 1
    assert store.histories.series() == [SERIES]
    assert store.histories.changes() == []
    assert store.histories.forget("run-2") == 0
    assert store.histories.record(part(point(2, 0.8, label="v3"), series=OTHER)).added == 1


def test_points_outlive_their_runs(store: Store) -> None:
    begin(store, "run-1")
    store.histories.record(part(point(1, 0.9)))
    store.remove_runs(["run-1"], is_alive=dead)
    assert labels(store) == ["v1"]


def test_changes_are_kept_as_they_are_and_by_their_ids(store: Store) -> None:
    for each in part_of(history([1.0, 0.9])):
        store.histories.record(each)
    again = Remeasured("run-c", "v0", "v1", 0.9, None, 0.92, 8, "inconclusive", "few", NOW)
    one, other = change(1, id="abc1"), change(0, id="abd2", note="known", remeasured=again)
    store.histories.keep([one, other], {SERIES.id: 2})
    assert store.histories.changes() == [one, other]
    fact = replace(one, state="confirmed", remeasured=again)
    store.histories.keep([fact])
    assert store.histories.find_change("abc") == fact
    assert [each.examined for each in store.histories.read()] == [2]
    with pytest.raises(UserError, match="2 change points have an id that starts with 'ab'"):
        store.histories.find_change("ab")
    with pytest.raises(UserError, match="no change point has an id that starts with 'x'"):
        store.histories.find_change("x")


def test_a_whole_id_names_its_change_though_another_begins_with_it(store: Store) -> None:
    for each in part_of(history([1.0, 0.9])):
        store.histories.record(each)
    short, longer = change(1, id="abc"), change(0, id="abcd")
    store.histories.keep([short, longer])
    assert store.histories.find_change("abc") == short
    assert store.histories.find_change("abcd") == longer


def test_bounds_of_noisy_blocks_can_be_read_again(store: Store) -> None:
    (recorded,) = part_of(history([1.0]))
    store.histories.record(part(replace(recorded.points[0][1], low=1e-304, high=1e304)))
    again = Remeasured("run-c", "v0", "v1", 0.9, 1e-304, 1e304, 3, "inconclusive", "few", NOW)
    store.histories.keep([replace(change(0, id="abc1"), low=1e-304, high=1e304, remeasured=again)])
    (kept,) = store.histories.changes()
    (history_,) = store.histories.read()
    assert kept.remeasured is not None
    for each in (history_.points[0], kept, kept.remeasured):
        assert (each.low, each.high) == (1e-20, 1e20)


def test_series_can_be_chosen_and_counted(store: Store) -> None:
    store.histories.record(part(point(1, 0.9)))
    both = HistoryPart(
        (SERIES, OTHER), (STATE,), ((SERIES.id, point(2, 0.9)), (OTHER.id, point(2, 1.1)))
    )
    store.histories.record(both)
    assert [each.series for each in store.histories.read([OTHER.id])] == [OTHER]
    assert store.histories.series_with({"v1", "v2", "v3"}) == {
        ("local", "v1"): 1,
        ("local", "v2"): 2,
    }


def test_all_series_are_read_by_as_many_statements_as_one(store: Store) -> None:
    statements: list[str] = []

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    counts = []
    for number in range(40):
        series = replace(SERIES, id=f"{number:04}")
        points = [(series.id, point(n, 1.0, run_id=f"r{number}", place=n)) for n in range(5)]
        store.histories.record(HistoryPart((series,), (STATE,), tuple(points)))
        if number in (0, 39):
            event.listen(store._engine, "before_cursor_execute", note)
            assert len(list(store.histories.read())) == number + 1
            event.remove(store._engine, "before_cursor_execute", note)
            counts.append(len(statements))
            statements.clear()
    assert counts[0] == counts[1]


def test_histories_travel_with_their_runs(store: Store, tmp_path: Path) -> None:
    for number, each in enumerate(part_of(history([1.0, 0.9, 0.8]))):
        begin(store, f"run-{number}")
        store.histories.record(each)
    store.histories.keep([change(1, note="known"), change(2)])
    file = tmp_path / "runs.zip"
    store.export_runs(["run-0", "run-1"], file)
    with Store.open(tmp_path / "other.sqlite") as other:
        other.import_file(file)
        assert labels(other) == ["v0", "v1"]
        assert other.histories.changes() == [imported_change(note="known")]
        # Existing data stays unchanged, even when it is imported again.
        other.histories.keep([imported_change(note="mine")])
        assert other.import_file(file).added == ()
        assert labels(other) == ["v0", "v1"]
        assert other.histories.changes() == [imported_change(note="mine")]


def imported_change(note: str) -> ChangeRecord:
    (made,) = as_imported(HistoryPart(changes=(change(1, note=note),))).changes
    return made


def test_points_of_a_run_that_the_file_did_not_bring_are_left_out(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "runs.zip"
    for number, each in enumerate(part_of(history([1.0, 0.5]))):
        begin(store, f"run-{number}")
        store.histories.record(each)
    store.export_runs(["run-0", "run-1"], file)
    with Store.open(tmp_path / "other.sqlite") as other:
        begin(other, "run-1", title="Mine")
        imported = other.import_file(file)
        assert (imported.added, imported.unrecorded) == (("run-0",), ("run-1",))
        assert labels(other) == ["v0"], "nothing of the other's run-1"
        mine = part_of(history([1.0, 0.9]))[1]
        assert other.histories.record(mine).added == 1
        theirs, own = other.histories.read()
        assert [[each.label for each in of.points] for of in (theirs, own)] == [["v0"], ["v1"]]
        assert other.import_file(file).unrecorded == ()


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
_numbers = st.floats(1e-6, 1e6)
_level: st.SearchStrategy[Level] = _texts | st.integers(-5, 5) | st.booleans()


_series = st.builds(
    SeriesRecord, id=st.just(""), experiment=_texts, digest=_texts, factor=_texts,
    reference=_level, candidate=st.none() | _level,
    fixed_factors=st.dictionaries(_texts, _level, max_size=2), metric=_texts, title=_texts,
    unit=_texts, direction=st.sampled_from(["higher", "lower"]), margin=st.floats(1e-6, 0.999),
)  # fmt: skip
_states = st.builds(
    StateRecord, st.just(""), _texts, st.dictionaries(_texts, st.none() | _level, max_size=2)
)
_points = st.builds(
    PointRecord, label=_texts, at_utc=st.just(NOW), run_id=st.just("run"), place=st.just(0),
    level=_level, build=st.none() | _texts, ratio=_numbers, low=st.none() | _numbers,
    high=st.none() | _numbers, n_blocks=st.integers(1, 100), log_sd=st.none() | _numbers,
    state=st.just(""),
)  # fmt: skip


@st.composite
def _parts(draw: st.DrawFn) -> HistoryPart:
    """Generate the points of one run in any series and environments."""
    drawn = draw(st.lists(_series, min_size=1, max_size=3))
    series = [replace(each, id=f"series-{number}") for number, each in enumerate(drawn)]
    found = draw(st.lists(_states, min_size=1, max_size=2))
    states = [replace(each, id=f"state-{number}") for number, each in enumerate(found)]
    points = [
        (
            of.id,
            replace(
                each,
                label=f"{place}-{each.label}",
                place=place,
                state=states[place % len(states)].id,
            ),
        )
        for of in series
        for place, each in enumerate(draw(st.lists(_points, min_size=1, max_size=3)))
    ]
    return HistoryPart(tuple(series), tuple(states), tuple(points))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_parts())
def test_any_part_comes_back_and_travels(tmp_path: Path, drawn: HistoryPart) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as directory:
        file = Path(directory, "runs.zip")
        with Store.open(Path(directory, "results.sqlite")) as store:
            begin(store, "run")
            store.histories.record(drawn)
            require_read(store, drawn)
            used = {point.state for _, point in drawn.points}
            wanted = {state.id: state for state in drawn.states if state.id in used}
            assert store.histories.states() == wanted
            store.export_runs(["run"], file)
        with Store.open(Path(directory, "other.sqlite")) as other:
            other.import_file(file)
            require_read(other, as_imported(drawn))


def require_read(store: Store, part: HistoryPart) -> None:
    """Require that a store's histories have all series and points of a part."""
    read = {each.series.id: each for each in store.histories.read()}
    for series in part.series:
        own = tuple(point for of, point in part.points if of == series.id)
        assert (read[series.id].series, read[series.id].points) == (series, own)
