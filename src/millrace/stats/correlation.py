"""Estimate how much autocorrelation inflates the variance of means, and with it all evidence.

The model is that of measurements on a machine that drifts: noise of each measurement on top of a
first-order autoregression. Its parameters are estimated by Whittle's likelihood of the periodogram
(Arkiv för Matematik 2, 1953), without the lowest frequencies, since undetected steps look like
drift there. They are averaged over a grid by their likelihoods (Hoeting, Madigan, Raftery and
Volinsky, "Bayesian Model Averaging", Statistical Science 14, 1999).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PERSISTENCES = np.array([0.5, 0.7, 0.8, 0.9])
_SHARES = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
_PHI = np.repeat(_PERSISTENCES, len(_SHARES))[:, None]
_SHARE = np.tile(_SHARES, len(_PERSISTENCES))[:, None]
_AT_ZERO = (1 - _SHARE + _SHARE * (1 + _PHI) / (1 - _PHI))[:, 0]  # of the spectra, at frequency 0
LOWEST_FREQUENCY = 5
FEWEST_FREQUENCIES = 8


def inflation(residuals: Array, n_levels: int) -> float:
    """Return the variance of a mean of many values relative to independent values, at least 1.

    ``residuals``, shape (n,), are residuals from ``n_levels`` fitted levels. Return 1 if the series
    is too short for an estimate.
    """
    n = len(residuals)
    first = max(2 * n_levels + 1, LOWEST_FREQUENCY)
    periodogram = np.abs(np.fft.rfft(residuals)[first:]) ** 2
    count = len(periodogram)
    if count < FEWEST_FREQUENCIES or not periodogram.any():
        return 1.0
    inverse, logs = _spectra(n, first)
    likelihoods = -count * np.log(inverse @ periodogram / count) - logs
    independent = -count * math.log(periodogram.mean())
    most = max(float(likelihoods.max()), independent)
    weights = np.exp(likelihoods - most) / len(likelihoods)
    drifting = float(weights.sum())
    total = drifting + math.exp(independent - most)
    return 1 + float(weights @ _AT_ZERO) / total - drifting / total


@lru_cache(maxsize=16)
def _spectra(n: int, first: int) -> tuple[Array, Array]:
    """Return the reciprocal spectra of the grid, a row each, and the sums of their logarithms.

    They start at the frequency ``first``.
    """
    cosines = np.cos(2 * np.pi / n * np.arange(first, n // 2 + 1))
    spectra = 1 - _SHARE + _SHARE * (1 - _PHI**2) / (1 + _PHI**2 - 2 * _PHI * cosines)
    return 1 / spectra, np.log(spectra).sum(axis=1)
