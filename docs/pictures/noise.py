"""Simulate hosts on which nothing differs, for the pictures; the seeds are fixed."""

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]


def correlated(source: np.random.Generator, shape: tuple[int, ...], correlation: float) -> Array:
    """Return stationary first-order autoregressions of variance 1 along the last axis."""
    before = 100
    steps = source.standard_normal((*shape[:-1], shape[-1] + before))
    steps *= np.sqrt(1 - correlation**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], steps)[..., before:])


def seconds(source: np.random.Generator, trials: tuple[int, ...], n: int) -> Array:
    """Return logarithms of the seconds of trials, shape (*trials, n).

    Trials differ by 1 %, seconds by 3 %, and each second depends on the one before.
    """
    of_trials = 0.01 * source.standard_normal((*trials, 1))
    return np.asarray(of_trials + 0.03 * correlated(source, (*trials, n), 0.8))
