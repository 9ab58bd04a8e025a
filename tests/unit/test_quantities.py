"""Test sizes and durations, as written and as displayed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.quantities import (
    counted,
    duration_in_words,
    exact_size,
    parse_duration,
    parse_size,
    readable_size,
)


def test_one_of_a_kind_is_singular() -> None:
    assert [counted(n, "block") for n in (0, 1, 5_000)] == ["0 blocks", "1 block", "5,000 blocks"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


@given(st.integers(min_value=0, max_value=2**63))
def test_an_exact_spelling_reads_back(size_bytes: int) -> None:
    assert parse_size(exact_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("12G", 12 << 30), ("192k", 192 << 10), ("4096", 4096), (" 1MB ", 1 << 20)],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "12X", "12 G", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (5_842_640_750, "5.84 GB"), (200_000_000, "200 MB")],
)
def test_sizes_are_shown_with_three_digits(size_bytes: int, text: str) -> None:
    assert readable_size(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("45min", 2700), ("2h", 7200), ("1h30min", 5400), (" 1 h 5 s ", 3605)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "0h0min", "45", "45 m", "-5min", "1.5h", "30min1h", "x"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="45min"):
        parse_duration(text)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(1, 59))
def test_the_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    text = f"{hours}h{minutes}min{seconds}s"
    assert parse_duration(text) == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (40.4, "40 s"), (89, "89 s"), (90, "90 s"), (120, "2 min"), (125, "2 min 05 s"),
     (599, "9 min 59 s"), (600, "10 min"), (620, "10 min"), (7170, "2 h 00 min"),
     (7500, "2 h 05 min"), (4 * 86_400, "4 days"), (1e99, "more than 100,000 days")],
)  # fmt: skip
def test_duration_in_words_keeps_what_matters(seconds: float, text: str) -> None:
    assert duration_in_words(seconds) == text
