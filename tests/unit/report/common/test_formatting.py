import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.verdict import margin_text
from millrace.report.common import formatting


@pytest.mark.parametrize(
    ("smallest", "largest", "expected"),
    [
        (0.008, 0.008, "changes of 0.8 % or more"),
        (0.008, 0.012, "changes of 0.8 % (at worst 1.2 %) or more"),
        (
            0.014,
            0.3,
            (
                "changes of 1.4 % or more in the comparison with the least noise, and of 30.0 % or "
                "more in the noisiest"
            ),
        ),
        (
            0.014,
            6.419,
            (
                "changes of 1.4 % or more in the comparison with the least noise, and in the "
                "noisiest only those by a factor of 2 or more"
            ),
        ),
        (1.2, 6.419, "only changes by a factor of 2 or more, for there is too much noise"),
    ],
)
def test_a_forecast_too_wide_to_be_one_is_in_words(
    smallest: float, largest: float, expected: str
) -> None:
    assert formatting.changes_text(smallest, largest) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formatting.ratio_text(0.90213), "0.902"),
        (formatting.ratio_text(1.01), "1.010"),
        (formatting.ratio_text(12.345), "12.35"),
        (formatting.ratio_text(1.234e300), "1.23e+300"),
        (formatting.ratio_text(0.00031), "0.000310"),
        (formatting.ratio_text(0.02468), "0.0247"),
        (formatting.ratio_text(1 / 4508), "0.000222"),
        (formatting.percent_of_base_text(1 / 4508), "0.0222"),
        (formatting.percent_of_base_text(0.0123), "1.23"),
        (formatting.percent_of_base_text(0.123), "12.3"),
        (formatting.percent_of_base_text(0.0), "0.0"),
        (formatting.interval_text(1 / 4712, 1 / 4308), "0.000212 to 0.000232"),
        (formatting.change_text(1 / 4508), "4,510 times lower"),
        (formatting.change_text(33.64), "33.6 times as high"),
        (formatting.change_text(0.34), "66.0 % lower"),
        (formatting.size_text(1 / 3), "a factor of 3"),
        (formatting.size_text(0.4), "60.0 %"),
        (formatting.amount_text(0.25), "4 times"),
        (formatting.amount_text(0.75), "25.0 %"),
        (formatting.difference_text(1 / 4508), "÷4,510"),
        (formatting.difference_text(12.3), "×12.3"),
        (formatting.difference_text(0.902), "−9.8 %"),
        (formatting.times_text(0.0), "∞"),
        (formatting.times_interval_text(1 / 4712, 1 / 4308), "4,310 to 4,710 times"),
        (formatting.times_interval_text(3.1, 4.2), "3.1 to 4.2 times"),
        (formatting.ratio_text(1e-300), "1e-300"),
        (formatting.change_text(1.234e300), "1.23e+300 times as high"),
        (formatting.grouped_text(999_999_999_999_999), "999,999,999,999,999"),
        (formatting.grouped_text(-1e15), "-1e+15"),
        (formatting.whole_percent_text(-0.034), "−3 %"),
        (formatting.whole_percent_text(-0.004), "0 %"),
        (formatting.percent_text(0.0979), "9.8 %"),
        (formatting.percent_text(-0.0979, signed=True), "−9.8 %"),
        (formatting.percent_text(0.15, signed=True), "+15.0 %"),
        (formatting.percent_text(-0.0001, signed=True), "±0.0 %"),
        (formatting.percent_text(-0.0001), "0.0 %"),
        (margin_text(0.02), "2 %"),
        (margin_text(0.07), "7 %"),
        (margin_text(0.005), "0.5 %"),
        (margin_text(0.1), "10 %"),
        (margin_text(0.6), "60 % (−37.5 % to +60 %)"),
        (formatting.count_text(241_709.3), "241,709"),
        (formatting.count_text(4.5678), "4.57"),
        (formatting.seconds_text(1193.44), "1,193.4"),
        (formatting.seconds_text(193.44), "193.4"),
        (formatting.seconds_text(8.311), "8.31"),
        (formatting.seconds_text(0.0421), "0.0421"),
        (formatting.seconds_text(0.0), "0"),
        (formatting.bytes_text(128_000_000), "128.0 MB"),
        (formatting.bytes_text(512), "512 B"),
        (formatting.latency_text(4.21e-5), "42.1 µs"),
        (formatting.latency_text(0.0012399), "1.24 ms"),
        (formatting.latency_text(2.5), "2.5 s"),
        (formatting.latency_text(0.9999), "1 s"),
        (formatting.latency_text(0.00099999), "1 ms"),
        (formatting.latency_text(999e-6), "999 µs"),
        (formatting.latency_text(5e-7), "500 ns"),
        (formatting.latency_text(3599.0), "3,600 s"),
        (formatting.latency_text(0.0), "0 ns"),
        (formatting.change_text(0.902), "9.8 % lower"),
        (formatting.change_text(1.003), "0.3 % higher"),
        (formatting.change_text(1.0), "as high"),
        (formatting.change_text(0.99951), "as high"),
        (formatting.interval_text(0.8871, 12.3), "0.887 to 12.30"),
        (formatting.interval_text(None, None), "–"),
    ],
)
def test_digits(text: str, expected: str) -> None:
    assert text == expected


@given(st.floats(min_value=0, max_value=1.7e308, exclude_min=True))
def test_no_value_is_a_long_row_of_digits(value: float) -> None:
    for text in (
        formatting.ratio_text(value),
        formatting.change_text(value),
        formatting.percent_text(value),
        formatting.percent_text(-value, signed=True),
        formatting.whole_percent_text(value),
        formatting.percent_of_base_text(value),
        formatting.count_text(value),
        formatting.seconds_text(value),
        formatting.figure_text(value, signed=True),
        formatting.fixed_text(-value, 3, signed=True),
        formatting.bytes_text(value),
    ):
        assert len(text) <= len("999,999,999,999,999 times as high"), text


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_a_shown_time_is_within_one_percent(seconds: float) -> None:
    assert float(formatting.seconds_text(seconds).replace(",", "")) == pytest.approx(
        seconds, rel=0.01
    )
