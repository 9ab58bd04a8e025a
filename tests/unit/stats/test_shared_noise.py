"""Test intervals with shared noise: fallbacks, invariances, and simulated error rates."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks import shared_noise as measured
from benchmarks.trial_noise import DATA, Pool, pools
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.stats.shared_noise import GroupValues, shared_ratios
from tests.support.known import known

Array = NDArray[np.float64]
NORMAL = 1.959964  # the 97.5 % point
MOST_OF_GROUP = 6.0  # degrees of freedom that a group lends
RUNS = 300
CHANCE = 2 * math.sqrt(0.05 * 0.95 / RUNS)


def group(logs: Array) -> GroupValues:
    """Return a group with these logarithms, shape (blocks, treatments), the base first."""
    columns = [dict(enumerate(column)) for column in np.exp(logs).T.tolist()]
    return GroupValues(columns[0], tuple(columns[1:]))


def noise(seed: int, blocks: int, treatments: int, spread: float = 0.02) -> Array:
    return np.random.default_rng(seed).normal(0, spread, (blocks, treatments))


def own(logs: Array, looks: Looks = "once") -> list[RatioEstimate]:
    values = np.exp(logs)
    return [
        paired_ratio(values[:, 0].tolist(), values[:, place].tolist(), looks=looks)
        for place in range(1, values.shape[1])
    ]


def shared(*logs: Array, looks: Looks = "once") -> list[RatioEstimate]:
    found = [
        each
        for of_group in shared_ratios([group(each) for each in logs], looks=looks)
        for each in of_group
    ]
    assert all(found)
    return [each for each in found if each is not None]


def half_width(estimate: RatioEstimate) -> float:
    return math.log(known(estimate.high) / known(estimate.low)) / 2


sizes = st.tuples(st.integers(0, 10_000), st.integers(2, 8), st.integers(4, 8))


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(2, 3))
def test_one_or_two_comparisons_have_the_interval_of_their_own_blocks(
    seed: int, blocks: int, treatments: int
) -> None:
    logs = noise(seed, blocks, treatments)
    assert shared(logs) == own(logs)


@given(sizes)
def test_the_estimate_is_the_paired_one_and_agrees_with_its_p_value(
    size: tuple[int, int, int],
) -> None:
    logs = noise(*size)
    for found, alone in zip(shared(logs), own(logs), strict=True):
        assert found.ratio == alone.ratio
        assert found.excludes_1 == (known(found.p_value) < 0.05)


@given(sizes)
def test_no_interval_is_narrower_than_one_of_known_noise(size: tuple[int, int, int]) -> None:
    logs = noise(*size)
    _, blocks, treatments = size
    left = logs - logs.mean(axis=1, keepdims=True)
    squares = 2 * float(((left - left.mean(axis=0)) ** 2).sum())
    for found, alone in zip(shared(logs), own(logs), strict=True):
        assert alone.log_sd is not None
        rest = (squares - alone.log_sd**2 * (blocks - 1)) / ((blocks - 1) * (treatments - 2))
        assert known(found.log_sd) >= min(alone.log_sd, math.sqrt(rest)) * (1 - 1e-9)
        assert half_width(found) > NORMAL * known(found.log_sd) / math.sqrt(blocks)
        assert 0 <= found.borrowed <= MOST_OF_GROUP


@given(sizes)
def test_the_order_does_not_matter(size: tuple[int, int, int]) -> None:
    logs = noise(*size)
    shuffle = np.random.default_rng(size[0])
    places, rows = shuffle.permutation(logs.shape[1] - 1), shuffle.permutation(len(logs))
    before, again = shared(logs), shared(logs[rows][:, [0, *(places + 1)]])
    for place, found in zip(places, again, strict=True):
        assert half_width(found) == pytest.approx(half_width(before[place]), rel=1e-6)


@given(sizes, st.floats(0.1, 10.0))
def test_units_do_not_matter_and_noise_scales(size: tuple[int, int, int], factor: float) -> None:
    logs = noise(*size)
    units = np.linspace(-3, 3, logs.shape[1])
    drift = np.linspace(-1, 1, logs.shape[0])[:, np.newaxis]
    again = shared(logs * factor + units + drift)
    for found, before in zip(again, shared(logs), strict=True):
        assert half_width(found) == pytest.approx(factor * half_width(before), rel=1e-5)


def test_a_comparison_much_noisier_than_the_others_borrows_nothing() -> None:
    logs = noise(3, 6, 6)
    logs[:, 2] *= 100
    found, alone = shared(logs)[1], own(logs)[1]
    assert found.borrowed < 0.1
    assert half_width(found) == pytest.approx(half_width(alone), rel=0.03)


def test_one_much_quieter_than_the_others_borrows_nothing() -> None:
    logs = noise(4, 10, 6)
    logs[:, 2:] *= 100
    assert half_width(shared(logs)[0]) == pytest.approx(half_width(own(logs)[0]), rel=0.01)


def test_groups_of_like_noise_lend_and_unlike_ones_do_not() -> None:
    alike = [noise(seed, 3, 2) for seed in range(12)]
    unlike = [noise(seed, 3, 2, spread=0.001 * 3.0**seed) for seed in range(12)]
    assert np.mean([each.borrowed for each in shared(*alike)]) > 2
    assert np.mean([each.borrowed for each in shared(*unlike)]) < 0.5


def with_earlier(logs: Array, earlier: Sequence[Array]) -> GroupValues:
    """Return a group after runs of these logarithms."""
    known = [group(each).variance for each in earlier]
    return replace(group(logs), earlier=tuple(each for each in known if each is not None))


def of_earlier(seed: int, runs: int, *, unlike: float, changed: float = 1.0) -> GroupValues:
    """Return 3 blocks of a base and a candidate after ``runs`` of 5 blocks.

    ``unlike`` is the spread of the logarithms of the runs' noise, ``changed`` the factor by which
    today's noise is larger.
    """
    source = np.random.default_rng(seed)
    spreads = 0.02 * np.exp(source.normal(0, unlike, runs + 1))
    earlier = [source.normal(0, spread, (5, 2)) for spread in spreads[1:]]
    return with_earlier(source.normal(0, changed * spreads[0], (3, 2)), earlier)


def lent(group: GroupValues) -> RatioEstimate:
    ((found,),) = shared_ratios([group])
    assert found is not None
    return found


def test_the_variance_of_a_group_is_what_blocks_and_treatments_leave() -> None:
    logs = noise(11, 5, 2)
    found = known(group(logs).variance)
    assert found.freedom == pytest.approx(4)
    assert math.sqrt(found.value) == pytest.approx(own(logs)[0].log_sd)


@pytest.mark.parametrize(("runs", "most"), [(1, 1.2), (3, 1.4), (40, 1.5)])
def test_more_earlier_runs_lend_more(runs: int, most: float) -> None:
    borrowed = np.mean([lent(of_earlier(seed, runs, unlike=0.0)).borrowed for seed in range(50)])
    assert 0.6 * most <= borrowed <= most


def test_one_that_is_unlike_all_earlier_runs_borrows_nothing() -> None:
    found = with_earlier(noise(12, 10, 2, spread=1.0), [noise(at, 10, 2) for at in range(5)])
    assert lent(found).borrowed < 0.1


@pytest.mark.parametrize("unlike", [0.0, 0.5])
def test_intervals_after_earlier_runs_are_narrower_and_hold_the_truth(unlike: float) -> None:
    groups = [of_earlier(seed, 5, unlike=unlike) for seed in range(2 * RUNS)]
    found = [lent(each) for each in groups]
    alone = [lent(replace(each, earlier=())) for each in groups]
    assert np.mean([not each.excludes_1 for each in found]) >= 0.95 - CHANCE
    assert sum(map(half_width, found)) < 0.85 * sum(map(half_width, alone))


def test_noise_that_has_doubled_since_is_held() -> None:
    found = [lent(of_earlier(seed, 5, unlike=0.3, changed=2.0)) for seed in range(2 * RUNS)]
    assert np.mean([not each.excludes_1 for each in found]) >= 0.93 - CHANCE


def test_missing_trials_drop_their_pairs_alone() -> None:
    logs = noise(5, 4, 5)
    whole = group(logs)
    lacking = [dict(each) for each in whole.candidates]
    del lacking[0][2]
    lacking[1].clear()
    (found,) = shared_ratios([GroupValues(whole.base, tuple(lacking))])
    assert [each and each.n_pairs for each in found] == [3, None, 4, 4]
    assert all(each.borrowed > 0 for each in found if each is not None)


def test_values_without_a_spread_stay_certain() -> None:
    logs = np.zeros((4, 5)) + np.linspace(0, 1, 5)
    assert [each.p_value for each in shared(logs)] == [0.0] * 4
    assert all(half_width(each) < 1e-9 for each in shared(logs))


@given(st.integers(0, 10_000), st.integers(3, 10))
def test_intervals_for_any_number_of_looks_agree_with_their_p_values(
    seed: int, blocks: int
) -> None:
    for found in shared(noise(seed, blocks, 5), looks="any"):
        assert found.excludes_1 == (known(found.p_value) < 0.05)


@pytest.mark.parametrize("treatments", [2, 3])
def test_one_or_two_comparisons_share_nothing_at_any_look(treatments: int) -> None:
    logs = noise(8, 6, treatments)
    assert shared(logs, looks="any") == own(logs, "any")


@pytest.mark.parametrize("noisier", [1.0, 3.0])
def test_looking_after_every_block_keeps_alpha(noisier: float) -> None:
    """The base is as noisy as the others, or three times so; later looks are by ranks as well."""
    runs, wrong = 60, 0
    for seed in range(runs):
        logs = noise(seed, 7, 6)
        logs[:, 0] *= noisier
        looks = [
            [each.excludes_1 for each in shared(logs[:blocks], looks="any")]
            for blocks in range(3, 8)
        ]
        wrong += int(np.any(looks, axis=0).sum())
    # Comparisons of one run share a base: the bound is that of one comparison a run.
    assert wrong / (5 * runs) <= 0.05 + 1.645 * math.sqrt(0.05 * 0.95 / runs)


def test_any_look_at_three_blocks_has_a_third_of_the_width() -> None:
    logs = [noise(seed, 3, 6) for seed in range(50)]
    ours = sum(half_width(each) for run in logs for each in shared(run, looks="any"))
    theirs = sum(half_width(each) for run in logs for each in own(run, "any"))
    assert ours < theirs / 3


def rates(logs: Sequence[Array]) -> tuple[float, float]:
    """Return the coverage of the first candidate, and its width beside the own interval's."""
    both = [(shared(each)[0], own(each)[0]) for each in logs]
    covered = np.mean([not found.excludes_1 for found, _ in both])
    width, of_own = (sum(map(half_width, side)) for side in zip(*both, strict=True))
    return float(covered), width / of_own


def test_three_blocks_of_six_hold_the_truth_within_two_thirds_of_the_width() -> None:
    coverage, width = rates([noise(seed, 3, 6) for seed in range(RUNS)])
    assert 0.95 - CHANCE <= coverage <= 0.98 + CHANCE
    assert width <= 0.68


@pytest.mark.parametrize("noisier", [0, 1])
def test_a_side_of_three_times_the_variance_is_still_held(noisier: int) -> None:
    unequal = [noise(seed, 3, 6) for seed in range(RUNS)]
    for logs in unequal:
        logs[:, noisier] *= math.sqrt(3)
    coverage, _ = rates(unequal)
    assert coverage >= 0.93 - CHANCE


def test_groups_that_differ_much_in_noise_are_held() -> None:
    source = np.random.default_rng(7)
    runs = [
        [noise(100 * run + at, 3, 2, spread=0.02 * math.exp(source.normal())) for at in range(8)]
        for run in range(RUNS // 8)
    ]
    covered = [not each.excludes_1 for run in runs for each in shared(*run)]
    assert np.mean(covered) >= 0.95 - 1.5 * CHANCE


@pytest.mark.parametrize("unequal", [measured.EQUAL, *measured.UNEQUAL[:3]])
def test_recorded_noise_is_held(unequal: measured.Unequal) -> None:
    if not DATA.exists():
        pytest.skip(f"recorded noise is not on this machine: {DATA.name}")
    found = measured.measure(pools(), 25, unequal, measured.Shape(3, 6))
    assert 0.93 - 2 * found.coverage_spread <= found.coverage <= 0.985
    assert found.false_verdicts <= 0.05
    assert found.width <= 0.85


def test_known_normal_noise_has_the_width_of_theory() -> None:
    normal = Pool((np.random.default_rng(1).normal(0, 0.02, 100_000),))
    mean_of_spreads = math.sqrt(math.pi / 4)  # of three values with a spread of 1
    expected = NORMAL / (4.3027 * mean_of_spreads)
    assert measured.width_of_known_noise([normal], 3, 0.95) == pytest.approx(expected, rel=0.02)
