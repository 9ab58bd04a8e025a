"""Test durations, as written and as displayed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.times import duration_in_words, parse_duration


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
    [(0, "0 s"), (40.4, "40 s"), (89, "89 s"), (120, "2 min"), (7170, "2 h 00 min"),
     (7500, "2 h 05 min")],
)  # fmt: skip
def test_a_duration_is_told(seconds: float, text: str) -> None:
    assert duration_in_words(seconds) == text
