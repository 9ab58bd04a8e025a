"""Test change points: invariances, and error rates on synthetic and recorded noise."""

import math
import sys
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks import history_series, trial_noise
from millrace.stats.change_points import change_points, follows_trend, noise_density
from millrace.stats.level_density import residual_density, student_density

Array = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def noisy(
    seed: int, *, n: int = 120, sd: float = 0.02, persistence: float = 0.0, heavy: bool = False
) -> Array:
    """Return logarithms of an unchanged series with t3 or Gaussian noise.

    The noise may be autocorrelated."""
    source = np.random.default_rng(seed)
    innovations = source.standard_t(3, n) if heavy else source.normal(size=n)
    noise = innovations.copy()
    for i in range(1, n):
        noise[i] = persistence * noise[i - 1] + math.sqrt(1 - persistence**2) * innovations[i]
    return sd * noise


def stepped(logs: Array, *steps: tuple[int, float]) -> Array:
    """Return values with the levels changed from an index on, by a log-ratio."""
    changed = logs.copy()
    for index, size in steps:
        changed[index:] += size
    return np.exp(changed)


def indexes(values: Sequence[float] | Array) -> list[int]:
    return [point.index for point in change_points(values)]


@pytest.mark.parametrize(
    "values", [[1.0, 0.0, 2.0], [1.0, -1.0], [math.nan], [1.0, math.inf], [[1.0, 2.0]]]
)
def test_what_has_no_logarithm_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        change_points(values)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 20, 1000])
def test_a_constant_series_has_none(n: int) -> None:
    assert change_points([3.5] * n) == ()


@given(st.lists(st.floats(min_value=1e-300, max_value=1e300), max_size=60))
def test_any_values_give_points_that_make_sense(values: list[float]) -> None:
    found = change_points(values)
    places = [0, *(point.index for point in found), len(values)]
    assert places == sorted(set(places)) or not found
    for point in found:
        assert 0 <= point.low <= point.ratio <= point.high
        assert not math.isnan(point.low)
    for before, point, after in zip(places, found, places[2:], strict=False):
        assert before < point.earliest <= point.index <= point.latest < after


def test_a_step_without_any_noise_is_found_exactly() -> None:
    (only,) = change_points([2.0] * 30 + [3.0] * 20)
    assert (only.index, only.ratio, only.low, only.high) == pytest.approx((30, 1.5, 1.5, 1.5))


@given(seeds, st.floats(min_value=1e-6, max_value=1e6))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    values = stepped(noisy(seed), (40, 0.1), (80, -0.05))
    one, other = change_points(values), change_points(values * factor)
    assert [point.index for point in one] == [point.index for point in other]
    for a, b in zip(one, other, strict=True):
        assert (a.ratio, a.low, a.high) == pytest.approx((b.ratio, b.low, b.high), rel=1e-3)


@given(seeds, st.integers(10, 110), st.sampled_from([-0.3, 0.3]))
def test_a_large_step_is_found_from_both_ends_and_upside_down(
    seed: int, index: int, size: float
) -> None:
    values = stepped(noisy(seed), (index, size))
    for series, place, ratio in (
        (values, index, math.exp(size)),
        (values[::-1], 120 - index, math.exp(-size)),
        (1 / values, index, math.exp(-size)),
    ):
        found = change_points(series)
        closest = min(found, key=lambda point: abs(point.index - place))
        assert abs(closest.index - place) <= 1
        assert closest.ratio == pytest.approx(ratio, rel=0.05)


@pytest.mark.parametrize("factor", [1.2, 3.0])
@pytest.mark.parametrize("width", [1, 2])
def test_spikes_alone_are_not_reported(factor: float, width: int) -> None:
    """A spike of 10 or 50 standard deviations, anywhere, adds hardly any alarms."""

    def spiked(seed: int) -> Array:
        values = np.exp(noisy(seed))
        at = seed % (len(values) + 1 - width)
        values[at : at + width] *= factor
        return values

    assert alarms(spiked, 300) <= alarms(lambda seed: np.exp(noisy(seed)), 300) + 3


def test_a_long_history_wants_memory_in_proportion() -> None:
    values = stepped(
        noisy(1, n=10_000), *((at, 0.1 if at % 400 else -0.1) for at in range(200, 10_000, 200))
    )
    tracemalloc.start()
    found = indexes(values)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) >= 45
    assert most < 10_000 * 1_000


def test_steps_that_hide_one_another_in_noise_of_two_modes_are_found() -> None:
    """Each step is half as large as the modes are apart; one alone is weak evidence."""
    steps = ((50, 0.02), (100, -0.02), (150, 0.02))
    found = wrong = 0
    for seed in range(60):
        modes = np.random.default_rng(seed).choice([-0.02, 0.02], 200)
        result = indexes(stepped(modes + noisy(seed, n=200, sd=0.005), *steps))
        near = [[abs(index - at) <= 5 for index in result] for at, _ in steps]
        found += sum(any(each) for each in near)
        wrong += sum(not any(each) for each in zip(*near, strict=True))
    assert found >= 75
    assert wrong <= 8


def alarms(series: Callable[[int], Array], n: int) -> int:
    return sum(bool(change_points(series(seed))) for seed in range(n))


@pytest.mark.parametrize(
    ("n", "persistence", "heavy", "most"),
    [
        (20, 0.0, False, 0.05),
        (20, 0.0, True, 0.05),
        (60, 0.0, False, 0.04),
        (60, 0.0, True, 0.04),
        (200, 0.0, False, 0.02),
        (200, 0.0, True, 0.02),
        (200, 0.5, False, 0.05),
        (200, 0.5, True, 0.05),
    ],
)
def test_unchanged_synthetic_series_rarely_have_an_alarm(
    n: int, persistence: float, heavy: bool, most: float
) -> None:
    """In few points autocorrelation cannot be distinguished from changes."""
    runs = 300
    found = alarms(
        lambda seed: np.exp(noisy(seed, n=n, persistence=persistence, heavy=heavy)), runs
    )
    assert found / runs <= most


@settings(max_examples=30)
@given(seeds, st.floats(0.02, 1.0), st.sampled_from([-1, 1]))
def test_what_follows_a_trend_has_no_levels(seed: int, slope: float, sign: int) -> None:
    values = np.exp(sign * slope * np.arange(200) + noisy(seed, n=200, sd=1e-3))
    assert indexes(values) == []
    assert follows_trend(values)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.8])
def test_levels_in_noise_are_no_trend(persistence: float) -> None:
    """Nor does drift as slow as that of machines make one."""
    for seed in range(100):
        values = stepped(noisy(seed, n=200, persistence=persistence), (60, 0.2), (130, -0.1))
        assert not follows_trend(values)


def test_without_a_model_of_drift_most_drifting_series_have_an_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Show that the test above can fail."""
    module = sys.modules[change_points.__module__]
    monkeypatch.setattr(module, "inflation", lambda residuals, n_levels: 1.0)
    assert alarms(lambda seed: np.exp(noisy(seed, n=200, persistence=0.5)), 60) > 20


@pytest.mark.parametrize("persistence", [0.0, 0.5])
def test_the_interval_holds_the_true_ratio(persistence: float) -> None:
    """Use a step that is hardly ever missed, so that the found ones are not a lucky selection."""
    covered = total = 0
    for seed in range(300):
        values = stepped(noisy(seed, n=160, persistence=persistence), (80, 0.08))
        for point in change_points(values):
            if abs(point.index - 80) <= 5:
                total += 1
                covered += point.low <= math.exp(0.08) <= point.high
    assert total >= 270
    assert 0.90 <= covered / total <= 0.99


def test_drift_makes_the_interval_wider() -> None:
    def width(persistence: float) -> float:
        widths = []
        for seed in range(50):
            values = stepped(noisy(seed, n=160, persistence=persistence), (80, 0.15))
            point = min(change_points(values), key=lambda each: abs(each.index - 80))
            widths.append(math.log(point.high / point.low))
        return float(np.median(widths))

    assert width(0.8) > 1.5 * width(0.0)


@pytest.fixture(scope="module")
def recorded() -> list[history_series.Pool]:
    if not trial_noise.DATA.exists():
        pytest.skip(f"recorded noise is not on this machine: {trial_noise.DATA.name}")
    return trial_noise.recorded()


@pytest.mark.parametrize(("drift", "most"), [(False, 0.02), (True, 0.10)])
def test_unchanged_recorded_series_rarely_have_an_alarm(
    recorded: list[history_series.Pool], drift: bool, most: float
) -> None:
    source = np.random.default_rng(3)
    found = sum(
        bool(indexes(history_series.unchanged(source, pool, drift=drift).values))
        for pool in recorded
    )
    chance = 1.645 * math.sqrt(most * (1 - most) / len(recorded))
    assert found / len(recorded) <= most + chance


@pytest.mark.parametrize(("drift", "least"), [(False, 0.80), (True, 0.58)])
def test_steps_in_recorded_series_are_found(
    recorded: list[history_series.Pool], drift: bool, least: float
) -> None:
    """Compute F1 for steps of 2, 5 and 10 %, with a margin of five points."""
    source = np.random.default_rng(4)
    right = wrong = steps = 0
    for pool in recorded:
        history = history_series.injected(source, pool, drift=drift)
        found = indexes(history.values)
        hits = len(history_series.matched(found, history.steps))
        right, wrong, steps = right + hits, wrong + len(found) - hits, steps + 3
    assert 2 * right / (right + wrong + steps) >= least


@pytest.mark.parametrize("size", [1.5, 3.0])
@pytest.mark.parametrize("persistence", [0.0, 0.4])
def test_the_interval_of_the_position_holds_it(size: float, persistence: float) -> None:
    """Use the found ones among steps of this many standard deviations."""
    held = []
    for seed in range(300):
        logs = noisy(seed, persistence=persistence)
        found = change_points(stepped(logs, (60, size * 0.02)))
        if len(found) == 1:
            held.append(found[0].earliest <= 60 <= found[0].latest)
    assert len(held) > 100
    assert sum(held) / len(held) >= 0.9


Noise = Callable[[np.random.Generator, int], Array]


def weekends(factor: float) -> Noise:
    def make(source: np.random.Generator, n: int) -> Array:
        is_weekend = (np.arange(n) + source.integers(7)) % 7 >= 5
        return np.asarray(source.normal(0, 0.003, n) + np.where(is_weekend, math.log(factor), 0.0))

    return make


def two_hosts(share: float) -> Noise:
    def make(source: np.random.Generator, n: int) -> Array:
        is_other = source.random(n) < share
        return np.asarray(source.normal(0, 0.003, n) + np.where(is_other, math.log(1.06), 0.0))

    return make


def in_turns(length: int) -> Noise:
    def make(source: np.random.Generator, n: int) -> Array:
        is_other = np.arange(n) // length % 2 == 1
        return np.asarray(source.normal(0, 0.003, n) + np.where(is_other, math.log(1.06), 0.0))

    return make


def cycle(length: int) -> Noise:
    def make(source: np.random.Generator, n: int) -> Array:
        return np.asarray(np.log(100.0 + (np.arange(n) + source.integers(length)) % length))

    return make


SEVERAL_MODES = {
    "faster weekends": weekends(1.06),
    "slower weekends": weekends(0.94),
    "two hosts": two_hosts(0.5),
    "a rare host": two_hosts(0.15),
    "hosts in turns": in_turns(1),
    "hosts in turns of two days": in_turns(2),
    "whole numbers that rise in turns": cycle(3),
    "whole numbers that rise by five": cycle(5),
}


@pytest.mark.parametrize("half", [15, 30, 60])
@pytest.mark.parametrize("kind", SEVERAL_MODES)
def test_a_step_is_found_when_noise_has_several_modes(kind: str, half: int) -> None:
    found = extra = 0
    for seed in range(40):
        logs = SEVERAL_MODES[kind](np.random.default_rng(seed), 2 * half)
        places = indexes(np.round(stepped(logs + math.log(1000), (half, math.log(0.9))), 1))
        is_found = any(abs(place - half) <= 2 for place in places)
        found += is_found
        extra += len(places) - is_found
    assert found >= 36
    assert extra <= 8


@pytest.mark.parametrize("half", [8, 15, 30, 60])
@pytest.mark.parametrize("kind", SEVERAL_MODES)
def test_noise_of_several_modes_alone_is_rarely_reported(kind: str, half: int) -> None:
    def unchanged(seed: int) -> Array:
        logs = SEVERAL_MODES[kind](np.random.default_rng(1000 + seed), 2 * half)
        return np.asarray(np.round(np.exp(logs + math.log(1000)), 1), dtype=np.float64)

    assert alarms(unchanged, 60) <= 5
    assert not any(follows_trend(unchanged(seed)) for seed in range(20))


@pytest.mark.parametrize("n_levels", [2, 4, 8])
def test_levels_that_rise_step_by_step_are_not_a_trend(n_levels: int) -> None:
    extra = 0
    for seed in range(20):
        logs = noisy(seed, n=20 * n_levels, sd=0.003)
        steps = [(20 * number, 0.1) for number in range(1, n_levels)]
        values = stepped(logs, *steps)
        assert not follows_trend(values)
        extra += len(indexes(values)) - (n_levels - 1)
    assert 0 <= extra <= 2


@pytest.mark.parametrize("n", [12, 40, 120])
@pytest.mark.parametrize("unit", [0.001, 0.1])
def test_a_trend_of_rounded_values_is_a_trend(n: int, unit: float) -> None:
    values = np.round(10 * np.exp(0.02 * np.arange(n)) / unit) * unit
    assert follows_trend(values)
    assert indexes(values) == []


@pytest.mark.parametrize("sd", [0.0, 0.1, 0.3, 1.0])
def test_the_interval_holds_the_ratio_of_rounded_levels(sd: float) -> None:
    """Levels between 10 and 40 are rounded to whole numbers; ``sd`` is that of noise."""
    source = np.random.default_rng(3)
    held = []
    for _ in range(150):
        before = source.uniform(10, 40)
        after = before * source.choice([0.6, 1.6])
        means = np.repeat([before, after], 20)
        values = np.round(means + source.normal(0, sd, 40))
        found = change_points(values, unit_of_last_digit=1.0)
        if len(found) == 1:
            held.append(found[0].low <= after / before <= found[0].high)
    assert len(held) > 130
    assert sum(held) / len(held) >= 0.95


def test_steps_do_not_blur_noise_of_two_modes() -> None:
    """Two steps of half the distance between the modes look like a third mode otherwise."""
    source = np.random.default_rng(1)
    noise = source.choice([-0.02, 0.02], 200) + source.normal(0, 0.003, 200)
    stepped = noise + np.where((np.arange(200) // 50) % 2 == 1, 0.02, 0.0)
    start = student_density(0.02)
    found = noise_density(stepped - 0.01, start, inflated=1.0, rounds=6)
    true, blurred = residual_density(noise, 0.02), residual_density(stepped - 0.01, 0.02)

    def distance(table: Array) -> float:
        shifts = range(-8, 9)  # a density has no level of its own
        return min(
            float(np.abs(np.exp(np.roll(table, shift)) - np.exp(true.table)).sum())
            for shift in shifts
        )

    assert distance(found.table) < distance(blurred.table) / 2
