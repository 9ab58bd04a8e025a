"""Test reading the times of rows, in the forms which tools write."""

from datetime import UTC, datetime

import pytest

from millrace.importers.times import Ambiguous, order, times

DAY = datetime(2026, 1, 31, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-31", 0),
        ("2026-01-31T10:00:00Z", 36_000),
        ("2026-01-31 10:00:00 +0100", 32_400),
        ("2026-01-31T10:00:00.5+00:00", 36_000.5),
        ("Sat Jan 31 10:00:00 2026 +0000", 36_000),
        ("Sat, 31 Jan 2026 10:00:00 +0200", 28_800),
        ("31 Jan 2026", 0),
        ("Jan 31, 2026", 0),
        ("2026/01/31", 0),
        ("2026/1/31 10:30", 37_800),
        ("1/31/2026 3:04 PM", 54_240),
        ("31.01.2026", 0),
        ("20260131", 0),
        ("nightly-2026-01-31-a1b2c3", 0),
    ],
)
def test_a_time_is_read_in_the_forms_of_tools(text: str, seconds: float) -> None:
    assert times([text], numbers=False) == [DAY + seconds]


@pytest.mark.parametrize(
    "texts",
    [
        *([each] for each in ("c12", "1234", "8.0.33", "mysql-8.0.33", "20.04", "", "2026-13-01")),
        ["5.6.30", "5.6.51", "5.7.12", "5.7.20", "5.7.31", "5.7.44"],
        ["10.4.20", "10.4.31", "10.5.10", "10.5.23", "10.6.12", "10.6.19"],
        ["5.6.10", "5.6.11", "5.7.10", "5.7.11"],
        ["10-4-20", "10-5-10", "10-6-12"],
    ],
)
def test_versions_and_other_labels_are_not_times(texts: list[str]) -> None:
    assert times(texts, numbers=False) is None


def test_two_digits_of_a_year_are_read_after_slashes() -> None:
    assert times(["1/30/26", "1/31/26"], numbers=False) == [DAY - 86_400, DAY]


@pytest.mark.parametrize(
    "texts",
    [
        ["30.1.26", "31.01.26"],
        ["30.01.2026", "31.1.2026"],
        ["30.1.26 10:00", "31.1.26 10:00:00"],
        ["1.30.26", "1.31.26"],
    ],
)
def test_dates_with_dots_are_read_in_a_column_of_times(texts: list[str]) -> None:
    hours = 36_000 if " " in texts[0] else 0
    assert times(texts, numbers=True) == [DAY - 86_400 + hours, DAY + hours]


def test_dates_are_decided_by_other_rows_or_refused() -> None:
    assert times(["30.01.26", "31.01.26", "01.02.26"], numbers=True) is not None
    for ending in (".26", ".2026", "/2026"):
        with pytest.raises(Ambiguous):
            times([f"01{ending[0]}02{ending}", f"02{ending[0]}01{ending}"], numbers=True)
    assert times(["30.01.26", "1.2.3"], numbers=True) is None


def test_numbers_are_times_only_where_wanted() -> None:
    assert times(["1700000060", "1700000000.5"], numbers=True) == [1700000060.0, 1700000000.5]
    assert times(["1700000060", "1700000000.5"], numbers=False) is None
    assert times(["1e999"], numbers=True) is None
    assert times(["2026-01-01", "later"], numbers=True) is None


def test_day_and_month_are_decided_by_other_rows() -> None:
    january = times(["30/01/2026", "31/01/2026", "01/02/2026"], numbers=True)
    assert january == [DAY - 86_400, DAY, DAY + 86_400]
    falling = times(["03/02/2026", "02/02/2026", "28/01/2026"], numbers=True)
    assert falling is not None
    assert order(falling) == [2, 1, 0]


def test_rows_of_equal_times_are_turned_round_only_when_newest_first() -> None:
    assert order([2.0, 2.0, 1.0]) == [2, 1, 0]
    assert order([1.0, 3.0, 1.0, 2.0]) == [0, 2, 3, 1]
    assert order([1.0, 1.0, 2.0]) == [0, 1, 2]
