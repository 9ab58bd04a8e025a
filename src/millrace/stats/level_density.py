"""Find the best split of a series into two levels when its noise is independent per point.

Noise of benchmarks has heavy tails and several modes, since every restart of a system behaves a
little differently. The evidence for two levels instead of one is therefore a likelihood ratio under
the observed density of the noise: a kernel estimate (Parzen, Annals of Mathematical Statistics 33,
1962) from residuals, as in adaptive estimation of a location (Stone, Annals of Statistics 3, 1975),
mixed with Student's t of 3 degrees of freedom. The t distribution bounds the evidence of a single
point, so that an outlier never makes a level (Fearnhead and Rigaill, "Changepoint Detection in the
Presence of Outliers", Journal of the American Statistical Association 114, 2019).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS = 5  # the resolution of levels and residuals is a fifth of the scale
REACH = 20 * STEPS  # a residual beyond 20 scales counts as one of 20 scales
BOUND = 8 * STEPS  # beyond it, the density of Student's t is constant
BANDWIDTH = 0.3125 * STEPS  # of the kernel
FINE_BANDWIDTH = 0.2 * STEPS  # of the kernel for residuals from uncertain levels
PRIOR_POINTS = 20  # weight of Student's t relative to the residuals
MOST_LEVELS = 160

_OFFSETS = np.arange(-REACH, REACH + 1)


def _student(scale_steps: float) -> Array:
    """Return the density of Student's t with 3 degrees of freedom, scaled to a median deviation.

    Beyond ``BOUND`` it is constant.
    """
    t = _OFFSETS.clip(-BOUND, BOUND) / (0.882 * scale_steps)
    density = (1 + t * t / 3) ** -2
    return np.asarray(density / density.sum())


_STUDENT = _student(STEPS)
_LOG_STUDENT = np.log(_STUDENT)


def _normal(sd_steps: float) -> Array:
    weights = np.exp(-0.5 * (np.arange(-3 * STEPS, 3 * STEPS + 1) / sd_steps) ** 2)
    return np.asarray(weights / weights.sum())


_KERNEL = _normal(BANDWIDTH)
_FINE_KERNEL = _normal(FINE_BANDWIDTH)
_SCORE_KERNEL = _normal(0.5 * STEPS)
_TINY = 1e-9  # where the smoothed density ends


def _falling(table: Array) -> Array:
    """Return a table of log densities by offsets from high to low, extended past its ends."""
    return np.concatenate(
        [np.full(MOST_LEVELS + 1, table[-1]), table[::-1], np.full(MOST_LEVELS + 1, table[0])]
    )


_FALLING_STUDENT = _falling(_LOG_STUDENT)


class _Levels(NamedTuple):
    """A grid of ``n`` levels from ``low`` on, ``step`` apart, with log densities.

    ``places`` index each value's log density under the lowest level; those under the next levels
    follow.
    """

    low: float
    step: float
    n: int
    falling: Array
    places: NDArray[np.intp]


@dataclass(frozen=True)
class LevelDensity:
    """The log density of noise around its level.

    ``table``, shape (2 * REACH + 1,), has the values at offsets from -REACH to REACH times
    ``step``.
    """

    step: float
    table: Array

    @cached_property
    def _falling(self) -> Array:
        return _falling(self.table)

    def gains(self, values: Array) -> Array:
        """Return the log-likelihood gain (nats) of two levels over one.

        The shape is (n - 1,); element i is for a split before point i + 1.
        """
        levels = self._levels(values)
        likelihoods = levels.falling.take(levels.places + np.arange(levels.n)[:, None])
        sums = likelihoods.cumsum(axis=1)
        total = sums[:, -1:]
        left = sums[:, :-1]
        most = np.maximum.reduce  # in less time than the method of arrays where they are small
        return np.asarray(most(left) + most(total - left) - most(total))

    def level(self, values: Array) -> float:
        """Return the most likely level."""
        levels = self._levels(values)
        first = int(levels.places.min())
        counts = np.bincount(levels.places - first).astype(np.float64)
        falling = levels.falling[first : first + len(counts) + levels.n - 1]
        return float(levels.low + levels.step * np.correlate(falling, counts).argmax())

    def counts(self, values: Array) -> Array:
        """Count the residuals of ``values`` from their most likely level, by offset.

        The result has the table's shape.
        """
        return _counts(values - self.level(values), self.step)

    def scores(self, residuals: Array) -> Array:
        """Return the negative derivative of the log density at each residual."""
        smooth = np.convolve(np.exp(self.table), _SCORE_KERNEL, mode="same")
        slopes = -np.gradient(np.log(smooth + _TINY))
        return np.asarray(slopes[offset_bins(residuals, self.step)])

    def _levels(self, values: Array) -> _Levels:
        n = len(values)
        rank = min(max(3, n // 16), (n + 1) // 2)
        ordered = values.copy()
        ordered.partition((rank - 1, n - rank))
        low, high = float(ordered[rank - 1]), float(ordered[n - rank])
        step, falling = self.step, self._falling
        if high - low > MOST_LEVELS * step:  # any density separates levels this far apart
            step, falling = (high - low) / MOST_LEVELS, _FALLING_STUDENT
        span = int((high - low) / step + 1.5)
        offsets = _between(-REACH, np.rint((values - low) / step), span + REACH)
        return _Levels(low, step, span + 1, falling, MOST_LEVELS + 1 + REACH - offsets)


def student_density(scale: float) -> LevelDensity:
    """Return Student's t with 3 degrees of freedom, for noise with a known scale only."""
    return LevelDensity(scale / STEPS, _LOG_STUDENT)


def residual_density(residuals: Array, scale: float) -> LevelDensity:
    """Estimate the density of ``residuals``, shape (n,), with ``scale`` in the residuals' unit."""
    return counted_density(_counts(residuals, scale / STEPS), scale / STEPS)[0]


def counted_density(counts: Array, step: float) -> tuple[LevelDensity, float]:
    """Estimate the density of residuals from their ``counts`` at the offsets of its table.

    Also return their log-likelihood (nats), each under the density of all others (the leave-one-out
    likelihood of Duin, IEEE Transactions on Computers C-25, 1976).
    """
    n = float(counts.sum())
    smooth = np.convolve(counts, _KERNEL, mode="same")
    prior = PRIOR_POINTS * _STUDENT
    there = counts > 0
    others = smooth[there] - _KERNEL[len(_KERNEL) // 2] + prior[there]
    likelihood = counts[there] @ np.log(others / (n - 1 + PRIOR_POINTS))
    return LevelDensity(step, np.log((smooth + prior) / (n + PRIOR_POINTS))), float(likelihood)


def weighted_density(counts: Array, step: float) -> LevelDensity:
    """Estimate the density of residuals from uncertain levels, from their weighted counts."""
    smooth = np.convolve(counts, _FINE_KERNEL, mode="same") + PRIOR_POINTS * _STUDENT
    return LevelDensity(step, np.log(smooth / (counts.sum() + PRIOR_POINTS)))


def _counts(residuals: Array, step: float) -> Array:
    return np.bincount(offset_bins(residuals, step), minlength=2 * REACH + 1).astype(np.float64)


def offset_bins(residuals: Array, step: float) -> NDArray[np.intp]:
    """Return the table indices of residuals."""
    return _between(-REACH, np.rint(residuals / step), REACH) + REACH


def _between(least: int, values: Array, most: int) -> NDArray[np.intp]:
    """Clip values as ``numpy.clip`` does, but faster for few values."""
    return np.minimum(np.maximum(values, least), most).astype(np.intp)
