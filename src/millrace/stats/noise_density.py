"""Estimate the density of noise around levels that are not known yet.

The levels are a hidden Markov chain, which stays or rarely jumps to any level. Each round weights a
value's residuals from all levels by the probabilities that the whole series gives these levels, and
estimates the density from them (Baum, Petrie, Soules and Weiss, Annals of Mathematical Statistics
41, 1970). Steps that are not certain, and hide one another in the density of a single level, so
take their part in it. Autocorrelation inflates all evidence, so log densities are divided by it.
"""

import numpy as np
from numpy.typing import NDArray

from millrace.stats.level_density import REACH, LevelDensity, offset_bins, weighted_density

Array = NDArray[np.float64]
Places = NDArray[np.intp]

JUMP = 0.02  # the probability that a point has another level than the one before
MOST_OFFSET = REACH  # of a level, in steps of the density
LONGEST_PIECE = 800  # so that memory is in proportion to the series
OUTERMOST = 4  # levels lie between values of this rank from both ends


def noise_density(
    residuals: Array, density: LevelDensity, *, inflated: float, rounds: int
) -> LevelDensity:
    """Estimate the density of ``residuals``, shape (n,), around levels near 0.

    ``density`` is the one to begin with.
    """
    pieces = [
        _places(piece, density.step)
        for piece in np.array_split(residuals, -(-len(residuals) // LONGEST_PIECE))
    ]
    for _ in range(rounds):
        counts = np.sum([_counts(places, density.table, inflated) for places in pieces], axis=0)
        density = weighted_density(counts, density.step)
    return density


def _places(residuals: Array, step: float) -> Places:
    """Return the table indices of all residuals from all levels, shape (n, levels)."""
    rank = min(OUTERMOST, (len(residuals) + 1) // 2)
    ordered = np.sort(residuals)
    low = max(float(ordered[rank - 1]), -MOST_OFFSET * step)
    high = min(float(ordered[-rank]), MOST_OFFSET * step)
    levels = low + step * np.arange(int(max(high - low, 0.0) / step + 1.5))
    return offset_bins(residuals[:, None] - levels, step)


def _counts(places: Places, table: Array, inflated: float) -> Array:
    """Count residuals by their bins, weighted by the probabilities of their levels."""
    logs = table.take(places)
    logs -= logs.max(axis=1, keepdims=True)
    likelihoods = np.exp(logs / inflated)
    n, n_levels = places.shape
    both_ways = np.stack([likelihoods, likelihoods[::-1]], axis=1)
    before = np.empty((n, 2, n_levels))  # probabilities from the values before, both ways
    probabilities = np.full((2, n_levels), 1 / n_levels)
    for i in range(n):
        before[i] = probabilities
        probabilities = probabilities * both_ways[i]
        probabilities *= (1 - JUMP) / np.add.reduce(probabilities, axis=1, keepdims=True)
        probabilities += JUMP / n_levels
    weights = before[:, 0] * before[::-1, 1] * likelihoods
    weights /= weights.sum(axis=1, keepdims=True)
    counts = np.bincount(places.ravel(), weights=weights.ravel(), minlength=len(table))
    return counts.astype(np.float64)
