import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.ratio import paired_ratio
from millrace.stats.spread import summarise

values = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=2, max_size=30)


@given(values)
def test_agrees_with_another_implementation(times: list[float]) -> None:
    summary = summarise(times)
    assert summary.mean == pytest.approx(statistics.fmean(times))
    assert summary.median == pytest.approx(statistics.median(times))
    assert summary.geometric_mean == pytest.approx(statistics.geometric_mean(times))
    assert summary.sd == pytest.approx(statistics.stdev(times), rel=1e-6, abs=1e-6)
    assert summary.cv == pytest.approx(
        statistics.stdev(times) / statistics.fmean(times), rel=1e-6, abs=1e-6
    )
    assert summary.range == max(times) - min(times)
    quartiles = statistics.quantiles(times, n=4, method="inclusive")
    assert summary.lower_quartile == pytest.approx(quartiles[0])
    assert summary.upper_quartile == pytest.approx(quartiles[2])


@given(values)
def test_geometric_means_agree_with_the_paired_ratio(times: list[float]) -> None:
    others = [time * 1.25 + 0.001 for time in times]
    quotient = summarise(others).geometric_mean / summarise(times).geometric_mean
    assert quotient == pytest.approx(paired_ratio(times, others).ratio)


def test_one_value_has_a_level_but_no_spread() -> None:
    summary = summarise([4.0])
    assert (summary.mean, summary.median, summary.n) == (4.0, 4.0, 1)
    assert (summary.sd, summary.cv, summary.low, summary.high) == (None, None, None, None)


def test_nothing_has_no_level() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        summarise([])
