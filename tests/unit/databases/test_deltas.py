from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.client import Row
from millrace.databases.deltas import by_key, increased_rows, increases, number, split_gauges

COUNTERS = st.dictionaries(st.text(max_size=3), st.integers(0, 2**64 - 1), max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("-1", -1),
        ("10.500000", 10.5),
        ("", None),
        ("ON", None),
        ("NULL", None),
        ("2026-11-22 06:29:10", None),
        ("1e3", None),
        ("١", None),
        (None, None),
        (7, 7),
    ],
)
def test_a_value_is_a_number_or_none(text: object, expected: float | None) -> None:
    assert number(text) == expected


def test_only_grown_counters_are_returned() -> None:
    before = {"grew": 1, "stood": 5, "went back": 9, "wrapped": 2**64 - 1, "fraction": 0.5}
    after = {"grew": 4, "stood": 5, "went back": 2, "wrapped": 3, "fraction": 0.75, "new": 8}
    assert increases(before, after) == {"grew": 3, "fraction": 0.25}


@given(COUNTERS, COUNTERS)
def test_differences_lead_from_one_reading_to_the_next(
    before: dict[str, int], after: dict[str, int]
) -> None:
    found = increases(before, after)
    assert all(before[name] + delta == after[name] for name, delta in found.items())
    assert all(delta > 0 for delta in found.values())
    left_out = (before.keys() & after.keys()) - found.keys()
    assert all(after[name] <= before[name] for name in left_out)


@given(COUNTERS)
def test_without_gauges_everything_counts(values: dict[str, int]) -> None:
    assert split_gauges(values, ()) == (values, {})
    assert split_gauges(values, ("*",)) == ({}, values)


def test_gauges_are_names_or_patterns_in_any_case() -> None:
    counted, gauges = split_gauges(
        {"Threads_running": 2, "threads_created": 3, "Open_files": 4}, ("threads_Running", "Open_*")
    )
    assert counted == {"threads_created": 3}
    assert gauges == {"Threads_running": 2, "Open_files": 4}


def test_rows_are_compared_by_their_key() -> None:
    before: dict[Any, Row] = {
        "a": {"key": "a", "count": 1, "wait": 10},
        "same": {"key": "same", "count": 3, "wait": 7},
        "emptied": {"key": "emptied", "count": 5, "wait": 900},
        None: {"key": None, "count": 2, "wait": 2},
    }
    after: dict[Any, Row] = {
        "a": {"key": "a", "count": 4, "wait": 25},
        "same": {"key": "same", "count": 3, "wait": 7},
        "emptied": {"key": "emptied", "count": 6, "wait": 80},
        "new": {"key": "new", "count": 2, "wait": 6},
        None: {"key": None, "count": 3, "wait": 2},
    }
    assert increased_rows(before, after, ("count", "wait", "cpu")) == {
        "a": {"key": "a", "count": 3, "wait": 15, "cpu": None},
        "new": {"key": "new", "count": 2, "wait": 6, "cpu": None},
        None: {"key": None, "count": 1, "wait": 0, "cpu": None},
    }


def test_rows_of_one_key_are_one() -> None:
    rows: list[Row] = [
        {"key": "a", "text": "SELECT", "count": 11, "wait": 4, "cpu": 1},
        {"key": "b", "text": "COMMIT", "count": 2, "wait": 3},
        {"key": "a", "text": "SELECT", "count": 432, "wait": 90, "cpu": None},
        {"key": "a", "text": "SELECT", "count": 0, "wait": 0, "cpu": 0},
    ]
    assert by_key(rows, ("count", "wait", "cpu")) == {
        "a": {"key": "a", "text": "SELECT", "count": 443, "wait": 94, "cpu": None},
        "b": {"key": "b", "text": "COMMIT", "count": 2, "wait": 3},
    }


@given(st.dictionaries(st.text(max_size=2), st.tuples(COUNTERS, COUNTERS), max_size=5))
def test_no_row_counts_backwards(rows: dict[str, tuple[dict[str, int], dict[str, int]]]) -> None:
    names = ("count", "wait")
    before, after = (
        {key: {name: pair[at].get(name) for name in names} for key, pair in rows.items()}
        for at in (0, 1)
    )
    for row in increased_rows(before, after, names).values():
        assert row["count"] > 0
        assert row["wait"] is None or row["wait"] >= 0
