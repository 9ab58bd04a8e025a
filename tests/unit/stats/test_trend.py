"""Test the trend of a measured part: what is found, what is not called unsteady, and how often."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from millrace.stats.trend import Trend, TrendClass, classify_trend, detect_shared_drift
from tests.unit.stats.test_steady import autoregression

Floats = NDArray[np.float64]
LEVEL = 1000.0


def series(n_points: int, shape: ArrayLike, *, sd: float = 0.02, seed: int = 5) -> list[float]:
    """Return a level times ``shape``, with noise of a standard deviation of ``sd`` of the level."""
    noise = sd * np.random.default_rng(seed).standard_normal(n_points)
    values: list[float] = (LEVEL * (np.asarray(shape) + noise)).tolist()
    return values


def time(n_points: int) -> Floats:
    return np.arange(n_points) / n_points


def share(n_points: int, rho: float, shape: ArrayLike, *, sd: float, n_series: int = 400) -> float:
    """Return the share of unsteady ones among this many series."""
    source = np.random.default_rng(n_points)
    unsteady = 0
    for _ in range(n_series):
        noise = sd * autoregression(source, n_points, rho)
        values = LEVEL * (np.asarray(shape) + noise)
        unsteady += classify_trend(values.tolist()).kind != "steady"
    return unsteady / n_series


@pytest.mark.parametrize("n_points", [8, 10, 20, 30, 60, 300])
@pytest.mark.parametrize(("rho", "at_most"), [(0.0, 0.02), (0.5, 0.03), (0.8, 0.11)])
def test_steady_series_are_rarely_called_unsteady(
    n_points: int, rho: float, at_most: float
) -> None:
    """Use so much noise that the margin does not help."""
    assert share(n_points, rho, 1.0, sd=0.1) <= at_most


def test_spikes_and_short_dips_are_no_lack_of_steadiness() -> None:
    source = np.random.default_rng(3)
    found = []
    for _ in range(300):
        values = LEVEL * (1 + 0.02 * source.standard_normal(30))
        values[source.integers(30)] *= 0.4
        found.append(classify_trend(values.tolist()).kind)
    assert sum(kind != "steady" for kind in found) <= 6


@pytest.mark.parametrize("period", [3, 5])
def test_a_quick_sawtooth_is_steady(period: int) -> None:
    """A checkpoint every few seconds is part of the steady state."""
    tooth = 1 - 0.1 * (np.arange(60) % period) / period
    assert classify_trend(series(60, tooth)).kind == "steady"


@pytest.mark.parametrize(
    ("shape", "kind", "rises", "size"),
    [
        (1 - 0.07 * time(30), "drift", False, 0.07),
        (1 + 0.3 * time(30), "drift", True, 0.3),
        (1 - 0.2 * (np.arange(30) >= 20), "shift", False, 0.2),
        (1 + 0.25 * (np.arange(30) >= 18), "shift", True, 0.25),
        (1 - 0.3 * (np.arange(30) < 6), "warm-up", False, 0.3),
        (1 + 0.3 * (np.arange(30) < 6), "warm-up", True, 0.3),
        (1 + 0.1 * np.sin(2 * np.pi * time(30)), "wave", True, 0.2),
        (1 - 0.5 * (np.arange(30) < 3), "warm-up", False, 0.5),
    ],
)
def test_what_a_series_did_is_named(
    shape: Floats, kind: TrendClass, rises: bool, size: float
) -> None:
    found = classify_trend(series(30, shape, sd=0.01))
    assert found.kind == kind
    assert found.change is not None
    assert (found.change > 0) == rises
    assert abs(found.change) == pytest.approx(size, abs=0.04)


def test_end_of_warm_up_and_shift_are_located() -> None:
    cold = classify_trend(series(60, 1 - 0.5 * (np.arange(60) < 10), sd=0.01))
    assert (cold.kind, cold.at) == ("warm-up", 10)
    shifted = classify_trend(series(60, 1 - 0.2 * (np.arange(60) >= 40), sd=0.01))
    assert (shifted.kind, shifted.at) == ("shift", 40)


@pytest.mark.parametrize(("n_points", "rho", "at_least"), [(30, 0.0, 0.75), (60, 0.5, 0.7)])
def test_drifts_of_seven_percent_are_found(n_points: int, rho: float, at_least: float) -> None:
    assert share(n_points, rho, 1 - 0.07 * time(n_points), sd=0.01, n_series=150) >= at_least


def test_a_short_warm_up_is_found_where_it_matters() -> None:
    """Use three seconds at half of the level: the mean of 30 is 5 % too low, of 300 0.5 %."""
    for n_points, at_least, at_most in ((30, 0.9, 1.0), (300, 0.0, 0.05)):
        cold = 1 - 0.5 * (np.arange(n_points) < 3)
        assert at_least <= share(n_points, 0.0, cold, sd=0.02, n_series=100) <= at_most


def test_more_of_them_are_wanted_where_there_are_many_looks() -> None:
    alike = [Trend("steady", rise=rise) for rise in (0.06, 0.08, 0.07)]
    assert {course.kind for course in detect_shared_drift(alike)} == {"drift"}
    assert {course.kind for course in detect_shared_drift(alike, looks="any")} == {"steady"}
    assert {course.kind for course in detect_shared_drift(alike * 3, looks="any")} == {"drift"}


@pytest.mark.parametrize(("before", "kind"), [(3, "warm-up"), (4, "warm-up"), (7, "shift")])
def test_a_gross_step_is_found_in_ten_seconds(before: int, kind: TrendClass) -> None:
    found = classify_trend(series(10, 1 - 0.3 * (np.arange(10) < before), sd=0.01))
    assert (found.kind, found.at) == (kind, before)


def drifts(*rises: float) -> int:
    """Count the drifts among steady series that rise by this much, classified together."""
    found = detect_shared_drift([Trend("steady", rise=rise) for rise in rises])
    assert all(course.change == course.rise for course in found if course.kind == "drift")
    return sum(course.kind == "drift" for course in found)


def test_shared_drift_is_detected() -> None:
    assert drifts(-0.06, -0.08, -0.07, -0.09, -0.05) == 5
    assert drifts(0.06, 0.08, 0.07) == 3
    assert drifts(0.06, 0.09, 0.03, 0.08, 0.07, 0.06) == 5  # one within twice the margin
    assert drifts(-0.06, -0.08) == 0  # too few
    assert drifts(-0.03, -0.03, -0.03, -0.03) == 0
    assert drifts(-0.2, 0.1, -0.15, 0.12, -0.1) == 0
    assert drifts() == 0
    others = (Trend("wave", 0.2, rise=0.07), Trend("too short to tell"), Trend("steady", rise=1))
    assert detect_shared_drift(others) == others


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_trials_drift_alike_by_chance_as_rarely_as_stated(rho: float) -> None:
    source = np.random.default_rng(8)
    alike = 0
    for _ in range(500):
        noise = [1 + 0.1 * autoregression(source, 20, rho) for _ in range(3)]
        alike += drifts(*(classify_trend(values.tolist()).rise or 0.0 for values in noise)) > 0
    assert alike / 500 <= 0.022


def test_what_moves_within_the_margin_is_steady() -> None:
    drift = series(60, 1 - 0.015 * time(60), sd=0.001)
    assert classify_trend(drift).kind == "steady"
    assert classify_trend(drift, margin=0.005).kind == "drift"


@pytest.mark.parametrize("values", [[5.0], [1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0], [0.0] * 30])
def test_short_series_is_too_short_to_tell(values: list[float]) -> None:
    assert classify_trend(values).kind == "too short to tell"


def test_a_server_that_began_with_nothing_has_no_relative_change() -> None:
    found = classify_trend([0.0] * 20 + [100.0, 101.0] * 20)
    assert found.kind in ("warm-up", "shift")
    assert found.change in (None, -1.0)


@given(
    st.lists(st.floats(1.0, 1e6), min_size=1, max_size=60),
    st.sampled_from([2.0**-9, 0.5, 2.0, 2.0**20]),
)
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    before, after = classify_trend(values), classify_trend([value * factor for value in values])
    assert (after.kind, after.at) == (before.kind, before.at)


@given(st.floats(1.0, 1e6), st.integers(8, 80))
def test_a_constant_is_steady(level: float, n_points: int) -> None:
    assert classify_trend([level] * n_points).kind == "steady"


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_what_is_no_series_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="series"):
        classify_trend(values)
