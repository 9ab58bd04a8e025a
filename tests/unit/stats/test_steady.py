"""Test the steady state: invariances, and simulated error rates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from millrace.stats.steady import steady_state, warm_up

Floats = NDArray[np.float64]
LEVEL, SD = 1000.0, 50.0


def autoregression(source: np.random.Generator, n_points: int, rho: float) -> Floats:
    """Return an autoregression of standard deviation 1, from its stationary distribution."""
    shocks = source.standard_normal(n_points)
    values = np.empty(n_points)
    values[0] = shocks[0]
    for i in range(1, n_points):
        values[i] = rho * values[i - 1] + np.sqrt(1 - rho**2) * shocks[i]
    return values


def unsteady_share(
    n_points: int, rho: float, disturbance: ArrayLike, *, series: int = 400
) -> float:
    source = np.random.default_rng(n_points)
    found = 0
    for _ in range(series):
        noise = autoregression(source, n_points, rho)
        values = LEVEL + SD * (noise + np.asarray(disturbance))
        found += not steady_state(values.tolist(), margin=0.0).steady
    return found / series


@pytest.mark.parametrize("n_points", [20, 60, 300])
@pytest.mark.parametrize(("rho", "at_most"), [(0.0, 0.06), (0.5, 0.06), (0.8, 0.14)])
def test_steady_series_are_rarely_called_unsteady(
    n_points: int, rho: float, at_most: float
) -> None:
    assert unsteady_share(n_points, rho, 0.0) <= at_most


@pytest.mark.parametrize(
    ("n_points", "rho", "size", "at_least"),
    [(30, 0.0, 4.0, 0.8), (60, 0.0, 3.0, 0.9), (60, 0.5, 4.0, 0.65), (300, 0.5, 2.0, 0.95)],
)
def test_steps_are_found(n_points: int, rho: float, size: float, at_least: float) -> None:
    """Use steps of this many standard deviations of a second, in the second half."""
    after = np.arange(n_points) > 0.65 * n_points
    assert unsteady_share(n_points, rho, size * after, series=150) >= at_least


@pytest.mark.parametrize(("n_points", "rho", "at_least"), [(120, 0.0, 0.65), (300, 0.5, 0.9)])
def test_trends_are_found(n_points: int, rho: float, at_least: float) -> None:
    """Use trends of four standard deviations from start to end, though the cut takes up to half."""
    trend = 4 * np.arange(n_points) / n_points
    assert unsteady_share(n_points, rho, trend, series=150) >= at_least


def test_movements_within_the_margin_are_steady() -> None:
    time = np.arange(300) / 300
    values = LEVEL + 10 * (time > 0.6) + np.random.default_rng(1).standard_normal(300)
    strict, usual = (steady_state(values.tolist(), margin=margin) for margin in (0.0, 0.02))
    assert not strict.steady
    assert strict.reason == "moves slowly"
    assert usual.steady
    assert usual.swing == pytest.approx(0.01, abs=0.004)


@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("n_points", [30, 60, 300])
def test_the_cut_takes_the_warm_ups_bias_away(n_points: int, rho: float) -> None:
    """Simulate a start at half of the level that fades with a time constant of 4 s.

    The mean is 7 to 0.7 % too low, and on average within a quarter of a standard deviation of a
    second after the cut.
    """
    source = np.random.default_rng(9)
    biases, whole = [], []
    for _ in range(200):
        noise = SD * autoregression(source, n_points, rho)
        values = LEVEL * (1 - 0.5 * np.exp(-np.arange(n_points) / 4)) + noise
        biases.append(values[warm_up(values) :].mean() - LEVEL)
        whole.append(values.mean() - LEVEL)
    assert abs(np.mean(biases)) < 0.25 * SD
    assert abs(np.mean(biases)) < 0.5 * abs(np.mean(whole))


def test_the_cut_of_a_steady_series_keeps_most_of_it() -> None:
    source = np.random.default_rng(4)
    cuts = [warm_up(source.standard_normal(60)) / 60 for _ in range(300)]
    assert np.mean(cuts) < 0.2
    assert max(cuts) <= 0.6


@given(
    st.lists(st.floats(1.0, 1e6), min_size=1, max_size=80),
    st.sampled_from([2.0**-9, 0.5, 2.0, 2.0**20]),
)
def test_the_unit_does_not_matter(values: list[float], factor: float) -> None:
    before = steady_state(values)
    after = steady_state([value * factor for value in values])
    assert (after.cut, after.steady, after.reason) == (before.cut, before.steady, before.reason)
    assert after.mean == pytest.approx(before.mean * factor)


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=80))
def test_the_cut_is_half_of_the_series_at_most(values: list[float]) -> None:
    found = steady_state(values)
    assert 0 <= found.cut <= len(values) // 2 + 4
    assert found.mean == pytest.approx(np.mean(values[found.cut :]))


def test_a_constant_series_is_steady_from_the_start() -> None:
    found = steady_state([7.0] * 60)
    assert (found.cut, found.steady, found.mean) == (0, True, 7.0)


def test_few_points_are_too_short_to_tell() -> None:
    found = steady_state([1.0, 2.0, 1.5, 1.4, 1.6])
    assert found.steady
    assert found.reason == "too short to tell"
    assert found.p_value is None


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_what_is_no_series_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="series"):
        steady_state(values)
