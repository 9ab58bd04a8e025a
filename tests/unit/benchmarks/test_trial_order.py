"""Test what `benchmarks/trial_order` says of noise that is known."""

import numpy as np

from benchmarks.trial_order import gains, median

SHAPE = (10, 3)


def test_neighbours_gain_nothing_where_trials_do_not_depend_on_each_other() -> None:
    source = np.random.default_rng(1)
    benchmarks = [[source.normal(size=30) for _ in range(10)] for _ in range(40)]
    for each in gains(benchmarks, SHAPE, source, with_starts=False).T:
        assert abs(median(each, source)[0] - 1) < 0.03


def test_neighbours_escape_a_host_that_drifts_unless_starts_differ_more() -> None:
    source = np.random.default_rng(2)
    drifting = [[np.linspace(0.0, 1.0, 30)] * 10 for _ in range(5)]
    assert (gains(drifting, SHAPE, source, with_starts=False) < 0.2).all()
    apart = [[fork + 100 * number for number, fork in enumerate(forks)] for forks in drifting]
    assert (gains(apart, SHAPE, source, with_starts=True) > 0.9).all()


def test_benchmarks_with_too_few_values_are_left_out() -> None:
    source = np.random.default_rng(3)
    benchmarks = [[source.normal(size=29)], [source.normal(size=29), source.normal(size=31)]]
    assert gains(benchmarks, SHAPE, source, with_starts=True).shape == (1, 2)
