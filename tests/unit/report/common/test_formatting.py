from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.verdict import margin_text
from millrace.report.common.formatting import (
    MISSING,
    bytes_text,
    change_text,
    count_text,
    figure_text,
    fixed_text,
    grouped_text,
    interval_text,
    percent_of_base_text,
    percent_text,
    ratio_text,
    seconds_text,
    whole_percent_text,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ratio_text(0.90213), "0.902"),
        (ratio_text(1.01), "1.010"),
        (ratio_text(12.345), "12.35"),
        (ratio_text(1.234e300), "1.23e+300"),
        (ratio_text(0.00031), "0.00031"),
        (ratio_text(1e-300), "1e-300"),
        (change_text(1.234e300), "1.23e+302 % higher"),
        (grouped_text(999_999_999_999_999), "999,999,999,999,999"),
        (grouped_text(-1e15), "-1e+15"),
        (whole_percent_text(-0.034), "−3 %"),
        (whole_percent_text(-0.004), "0 %"),
        (percent_text(0.0979), "9.8 %"),
        (percent_text(-0.0979, signed=True), "−9.8 %"),
        (percent_text(0.15, signed=True), "+15.0 %"),
        (percent_text(-0.0001, signed=True), "±0.0 %"),
        (percent_text(-0.0001), "0.0 %"),
        (margin_text(0.02), "2 %"),
        (margin_text(0.07), "7 %"),
        (margin_text(0.005), "0.5 %"),
        (margin_text(0.1), "10 %"),
        (margin_text(0.6), "60 % (−37.5 % to +60 %)"),
        (count_text(241_709.3), "241,709"),
        (count_text(4.5678), "4.57"),
        (seconds_text(1193.44), "1,193.4"),
        (seconds_text(193.44), "193.4"),
        (seconds_text(8.311), "8.31"),
        (seconds_text(0.0421), "0.0421"),
        (seconds_text(0.0), "0"),
        (bytes_text(128_000_000), "128.0 MB"),
        (bytes_text(512), "512 B"),
    ],
)
def test_digits(text: str, expected: str) -> None:
    assert text == expected


@given(st.floats(min_value=0, max_value=1.7e308, exclude_min=True))
def test_no_value_is_a_long_row_of_digits(value: float) -> None:
    for text in (
        ratio_text(value),
        change_text(value),
        percent_text(value),
        percent_text(-value, signed=True),
        whole_percent_text(value),
        percent_of_base_text(value),
        count_text(value),
        seconds_text(value),
        figure_text(value, signed=True),
        fixed_text(-value, 3, signed=True),
        bytes_text(value),
    ):
        assert len(text) <= 32, text


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_a_shown_time_is_within_one_percent(seconds: float) -> None:
    assert float(seconds_text(seconds).replace(",", "")) == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.902, "9.8 % lower"), (1.003, "0.3 % higher"), (1.0, "as high"), (0.99951, "as high")],
)
def test_changes_in_words(ratio: float, expected: str) -> None:
    assert change_text(ratio) == expected


def test_an_interval_that_is_not_there_is_a_dash() -> None:
    assert interval_text(0.8871, 12.3) == "0.887 to 12.30"
    assert interval_text(None, None) == MISSING
