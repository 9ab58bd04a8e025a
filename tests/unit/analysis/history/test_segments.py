"""Test which points of a history are comparable, where segments end, and names of series."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.history.segments import environment_changes, segments, series_names
from millrace.store.history_records import StateRecord
from tests.support.history_points import OTHER_STATE, SERIES, STATE, STATES, history, point

ONE, TWO = STATE.id, OTHER_STATE.id


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_each_point_is_in_the_strand_of_its_state(states: list[str]) -> None:
    points = [point(number, 1.0, state=state) for number, state in enumerate(states)]
    found = segments(points)
    assert sorted(index for segment in found for index in segment) == list(range(len(points)))
    assert len(found) == len(set(states))
    for segment in found:
        assert list(segment) == sorted(segment)
        assert len({states[index] for index in segment}) == 1


def test_environment_change_names_what_differs() -> None:
    made = history([1.0] * 5, [ONE, ONE, TWO, TWO, ONE])
    first, second = environment_changes(made.points, STATES)
    assert (first.index, first.label) == (2, "v2")
    assert first.changes == ("kernel release was 6.1 and is 6.2",)
    assert (second.index, second.changes) == (4, ("kernel release was 6.2 and is 6.1",))
    assert environment_changes(history([1.0] * 5).points, STATES) == ()


def test_another_host_or_build_is_reported_without_digests() -> None:
    facts = {"kernel release": "6.1", "reference server": "aa", "configuration wmf": "11"}
    before = StateRecord("a", "host-1", facts)
    after = StateRecord("b", "host-2", {**facts, "reference server": "bb"})
    made = history([1.0, 1.0], ["a", "b"])
    (found,) = environment_changes(made.points, {"a": before, "b": after})
    assert found.changes == ("the host was host-1 and is host-2", "another reference server")


def test_series_are_named_by_what_differs() -> None:
    alone = series_names([SERIES])
    assert alone == {SERIES.id: "nightly · throughput"}
    latency = replace(SERIES, id="2", metric="p95", title="95th percentile")
    many = replace(SERIES, id="3", fixed_factors={**SERIES.fixed_factors, "clients": 64})
    names = series_names([SERIES, latency, many])
    assert names == {
        SERIES.id: "nightly · clients 8 · throughput",
        "2": "nightly · clients 8 · 95th percentile",
        "3": "nightly · clients 64 · throughput",
    }


def test_references_candidates_and_digests_are_named_where_they_differ() -> None:
    others = [
        replace(SERIES, id="2", reference="mysql-8.0.12"),
        replace(SERIES, id="3", candidate="main"),
        replace(SERIES, id="4", digest="other"),
    ]
    names = series_names([SERIES, *others])
    assert len(set(names.values())) == 4
    assert "to mysql-8.0.12" in names["2"]
    assert "main" in names["3"]
    assert "digest other" in names["4"]
