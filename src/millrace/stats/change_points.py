"""Find level changes in a performance history.

Values are compared by their logarithms. Each split of a window into two levels has a likelihood
ratio under the density that the series' own noise shows (``level_density``). A split is looked for
in windows of many lengths (seeded binary segmentation: Kovács, Bühlmann, Li and Munk, Biometrika
110, 2023), and each kept split is tested again between its neighbours. The required evidence grows
with the logarithm of the number of points, because many splits are tried, and with the
autocorrelation of the noise (``correlation``): drift of a machine looks like changes of its level.
A level has at least four points, and the evidence of one point is bounded, so that spikes are not
changes. Undetected steps blur the density and hide one another; so, for a list, splits with less
evidence are tried together and judged by the likelihood of the values under the density of their
residuals.

Values whose neighbours are far more alike than all between two splits have no levels: they follow a
trend, and any split of them is arbitrary. No change points are reported then (``follows_trend``).

No window has more than 800 points, so that neither memory nor time grows with the square of their
number.

``EVIDENCE``, ``HIDDEN``, ``MOST_INFLATION`` and the bandwidth of the density were chosen among a
hundred variants on recorded noise of 281 benchmarks (``benchmarks/history``), for false alarms in
few unchanged series. Noise whose autocorrelation is stronger than theirs (that of a pure
autoregression with a coefficient of 0.8) has false alarms in most series.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.correlation import inflation
from millrace.stats.level_density import (
    LevelDensity,
    counted_density,
    residual_density,
    student_density,
)

Array = NDArray[np.float64]
Sensitivity = Literal["review", "alert"]

FEWEST_POINTS = 4
FEWEST_TO_TELL = 2 * FEWEST_POINTS  # of a series, for two levels
SHORTEST_WINDOW = 40
LONGEST_WINDOW = 800
MOST_INFLATION = 4.5  # windows are too short for more, and estimates of more too uncertain
WEAK = 0.4  # of the required evidence: splits that may hide one another
MOST_TOGETHER = 8
MOST_TRIES = 2
TREND = 0.9
"""The correlation of neighbours around their levels above which they follow a trend.

Restarts of a system add noise to a machine's drift, so their correlation is lower; so is that of a
random walk that is split often enough.
"""
OUTLIER = 3.0  # standard deviations
LARGEST = math.log(sys.float_info.max)


@dataclass(frozen=True)
class _Evidence:
    """The log-likelihood ratio (nats) that a split must exceed.

    It is the inflation times the sum of ``log(n)`` and ``beside_tries``, plus ``beside_drift``.
    """

    beside_tries: float
    beside_drift: float

    def wanted(self, n_points: int, inflated: float) -> float:
        tries = math.log(n_points) + self.beside_tries
        return min(inflated, MOST_INFLATION) * tries + self.beside_drift


EVIDENCE = {
    "review": _Evidence(beside_tries=-0.75, beside_drift=1.75),
    "alert": _Evidence(beside_tries=0.3, beside_drift=0.0),
}
HIDDEN = _Evidence(beside_tries=1.25, beside_drift=0.75)
"""The evidence for splits that hide one another, for which the density is fitted again.

They are searched in lists only: with a look after every point, some look would raise a false alarm.
"""


@dataclass(frozen=True)
class ChangePoint:
    """A level change in a history.

    ``index`` is the first point of the new level, from 0, and lies in ``earliest`` to ``latest``;
    ``ratio`` is the new level over the old, with its interval ``low`` to ``high``.
    """

    index: int
    ratio: float
    low: float
    high: float
    earliest: int
    latest: int


def change_points(
    values: Sequence[float] | Array,
    *,
    sensitivity: Sensitivity = "review",
    confidence: float = 0.95,
) -> tuple[ChangePoint, ...]:
    """Return the change points of a history in their order.

    ``values``, shape (n,), are in the order of time, in any one positive unit. ``review`` suits a
    list for occasional review, ``alert`` an analysis after every new value that alerts somebody.
    The interval of a ratio, of that ``confidence``, is Student's on values without outliers, with
    as many degrees of freedom as there were independent values; it does not correct for the
    selection of the point by its levels. The interval of the position contains that share of the
    likelihood of all splits between the neighbouring ones, with drift weighted as above.

    Raises ValueError for values that are not positive and finite.
    """
    logs = _logs(values)
    found = _found(logs, sensitivity)
    if found.follows_trend:
        return ()
    return tuple(
        _change_point(
            logs[start:end],
            start,
            split,
            positions=_positions(found, (start, split, end), confidence),
            inflated=found.inflated,
            confidence=confidence,
        )
        for (start, split), (_, end) in pairwise(pairwise([0, *found.splits, len(logs)]))
    )


def follows_trend(values: Sequence[float] | Array, *, sensitivity: Sensitivity = "review") -> bool:
    """Return whether a history has a trend instead of levels, so that it has no change points.

    ``values`` are as for ``change_points``. The correlation is tested around one level and around
    the levels that were found.

    The variance of a first-order autoregression is that of a half of its neighbours' differences
    divided by one less their correlation; both are measured by medians.
    """
    return _found(_logs(values), sensitivity).follows_trend


@dataclass(frozen=True)
class _Found:
    search: _Search
    splits: Sequence[int]
    inflated: float
    follows_trend: bool


def _found(logs: Array, sensitivity: Sensitivity) -> _Found:
    scale = _scale(logs)
    density = student_density(scale or 1.0)
    if len(logs) < FEWEST_TO_TELL or scale == 0:
        return _Found(_Search(logs, density), (), 1.0, follows_trend=False)
    evidence = EVIDENCE[sensitivity]
    # As for strong drift: the residuals then separate drift from small steps.
    first = _splits(_Search(logs, density), evidence.wanted(len(logs), MOST_INFLATION))
    residuals = _residuals(logs, first, density)
    density = residual_density(residuals, scale)
    inflated = _inflation(residuals, density, len(first) + 1)
    threshold = evidence.wanted(len(logs), inflated)
    search = _Search(logs, density)
    splits = _splits(search, threshold)
    if splits != first:
        search = _Search(logs, _described(search, splits).density)
        splits = _splits(search, threshold)
    splits = _refined(search, splits, threshold)
    if sensitivity == "review" and len(logs) >= SHORTEST_WINDOW:
        weak = WEAK * threshold
        splits, search = _with_hidden(search, splits, weak, HIDDEN.wanted(len(logs), inflated))
    trend = _follows_trend(scale, logs - _median(logs)) and _follows_trend(
        scale, _residuals(logs, splits, search.density)
    )
    return _Found(search, splits, inflated, trend)


def _follows_trend(scale: float, residuals: Array) -> bool:
    spread = 1.4826 * _median(np.abs(residuals))
    return scale**2 < (1 - TREND) * spread**2


def _logs(values: Sequence[float] | Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("a history has values that are positive and finite")
    return np.asarray(np.log(array))


def _scale(logs: Array) -> float:
    """Return the standard deviation of noise; 0 where all values are the same.

    It is estimated from differences of neighbours, few of which contain steps.
    """
    if len(logs) < 2:
        return 0.0
    differences = np.diff(logs)
    typical = _median(np.abs(differences - _median(differences)))
    return (1.4826 * typical or float(np.abs(differences).mean())) / math.sqrt(2)


@dataclass(frozen=True)
class _Search:
    """A search for splits, with cached results.

    ``known`` are the gains of the evaluated windows by first point and end, ``counted`` the
    residuals of segments, each as a level of its own.
    """

    logs: Array
    density: LevelDensity
    known: dict[tuple[int, int], Array] = field(default_factory=dict)
    counted: dict[tuple[int, int], Array] = field(default_factory=dict)

    def gains(self, first: int, end: int) -> Array:
        """Return the gains of a window's splits that leave enough points on both sides."""
        window = first, end
        if window not in self.known:
            gains = self.density.gains(self.logs[first:end])
            self.known[window] = gains[FEWEST_POINTS - 1 : len(gains) + 1 - FEWEST_POINTS]
        return self.known[window]

    def counts(self, start: int, end: int) -> Array:
        """Count a segment's residuals by their offsets."""
        if (start, end) not in self.counted:
            self.counted[start, end] = self.density.counts(self.logs[start:end])
        return self.counted[start, end]


def _splits(search: _Search, threshold: float) -> list[int]:
    found: list[int] = []
    open_segments = [(0, len(search.logs))]
    while open_segments:
        start, end = open_segments.pop()
        split = _best_split(search, start, end, threshold)
        if split is not None:
            found.append(split)
            open_segments += [(start, split), (split, end)]
    return sorted(found)


def _best_split(search: _Search, start: int, end: int, threshold: float) -> int | None:
    """Return the best split of the longest windows of a segment with enough evidence for one."""
    length = min(end - start, LONGEST_WINDOW)
    while length >= 2 * FEWEST_POINTS:
        best, where = threshold, None
        for first in (*range(start, end - length, max(length // 2, 1)), end - length):
            gains = search.gains(first, first + length)
            most = int(gains.argmax())
            if gains[most] > best:
                best, where = float(gains[most]), first + FEWEST_POINTS + most
        if where is not None or length < 2 * SHORTEST_WINDOW:
            return where
        length //= 2
    return None


@dataclass(frozen=True)
class _Described:
    """Splits, the density of the residuals from their levels, and the likelihood of the values."""

    splits: list[int]
    density: LevelDensity
    likelihood: float


def _described(search: _Search, splits: list[int]) -> _Described:
    counts = [search.counts(*each) for each in pairwise([0, *splits, len(search.logs)])]
    return _Described(splits, *counted_density(np.sum(counts, axis=0), search.density.step))


def _with_hidden(
    search: _Search, splits: list[int], weak_threshold: float, threshold: float
) -> tuple[list[int], _Search]:
    """Return ``splits`` plus those that hide one another, and a search with their density.

    In the density, an undetected step looks like noise with one more mode, so the step has little
    evidence. Weaker splits are therefore tried together, with the density of their own residuals.
    """
    all_splits = splits
    for _ in range(MOST_TRIES):
        found = _described(search, all_splits)
        weak = [
            each
            for each in _splits(search, weak_threshold)
            if all(abs(each - split) >= FEWEST_POINTS for split in all_splits)
        ]
        for first in range(0, len(weak), MOST_TOGETHER):
            strong = _strong(search, found, weak[first : first + MOST_TOGETHER], threshold)
            more = len(strong.splits) - len(found.splits)
            if strong.likelihood - found.likelihood > more * threshold:
                found = strong
        if found.splits == all_splits:
            break
        all_splits, search = found.splits, _Search(search.logs, found.density)
    if all_splits != splits:
        all_splits = _refined(search, all_splits, -math.inf)
    return all_splits, search


def _strong(search: _Search, before: _Described, weak: list[int], threshold: float) -> _Described:
    """Add those ``weak`` splits to ``before`` that are needed to describe the values.

    The weakest split is removed while the others describe the values nearly as well without it.
    """
    strong = _described(search, sorted([*before.splits, *weak]))
    search = _Search(search.logs, strong.density)
    while weak:
        without = before
        if len(weak) > 1:
            fewer = [[each for each in strong.splits if each != split] for split in weak]
            described = [_described(search, splits) for splits in fewer]
            without = max(described, key=attrgetter("likelihood"))
        if strong.likelihood - without.likelihood > threshold:
            break
        strong = without
        weak = [each for each in weak if each in without.splits]
    return strong


def _refined(search: _Search, splits: Sequence[int], threshold: float) -> list[int]:
    """Move each split to the median of its likelihood between its neighbours.

    While any split has too little evidence there, the weakest is removed.
    """
    refined = list(splits)
    for _ in range(2 * len(refined) + 2):
        before = list(refined)
        evidence = []
        for number, split in enumerate(before):
            start = refined[number - 1] if number else 0
            end = refined[number + 1] if number + 1 < len(refined) else len(search.logs)
            window = _window(start, split, end)
            gains = search.gains(*window)
            likelihoods = np.cumsum(np.exp(gains - gains.max()))
            middle = int(np.searchsorted(likelihoods, likelihoods[-1] / 2))
            refined[number] = window[0] + FEWEST_POINTS + middle
            evidence.append(float(gains.max()))
        if evidence and min(evidence) <= threshold:
            del refined[evidence.index(min(evidence))]
        elif refined == before:
            break
    return refined


def _window(start: int, split: int, end: int) -> tuple[int, int]:
    """Return the window in which a split between two others is evaluated again."""
    return max(start, split - LONGEST_WINDOW // 2), min(end, split + LONGEST_WINDOW // 2)


def _positions(found: _Found, around: tuple[int, int, int], confidence: float) -> tuple[int, int]:
    """Return the earliest and the latest position of a split.

    The range contains all but ``1 - confidence`` of its likelihood; ``around`` are the split
    before, the split itself and the next one.
    """
    window = _window(*around)
    gains = found.search.gains(*window) / min(found.inflated, MOST_INFLATION)
    reached = np.cumsum(np.exp(gains - gains.max()))
    tails = reached[-1] * np.array([1 - confidence, 1 + confidence]) / 2
    first = window[0] + FEWEST_POINTS
    earliest, latest = (first + int(place) for place in np.searchsorted(reached, tails))
    return min(earliest, around[1]), max(latest, around[1])


def _residuals(logs: Array, splits: Sequence[int], density: LevelDensity) -> Array:
    segments = [logs[start:end] for start, end in pairwise([0, *splits, len(logs)])]
    return np.concatenate([segment - density.level(segment) for segment in segments])


def _inflation(residuals: Array, density: LevelDensity, n_levels: int) -> float:
    """Return the larger of two inflations: of the likelihood scores and of the ranks.

    Ranks detect drift under noise with several modes.
    """
    n = len(residuals)
    ranks = np.empty(n)
    ranks[residuals.argsort()] = np.arange(n) - (n - 1) / 2
    scores = density.scores(residuals)
    return max(inflation(seen, n_levels) for seen in (ranks, scores - scores.mean()))


def _change_point(
    window: Array,
    start: int,
    split: int,
    *,
    positions: tuple[int, int],
    inflated: float,
    confidence: float,
) -> ChangePoint:
    """Describe the split at ``start`` from its two neighbouring levels, ``window``."""
    sides = window[: split - start], window[split - start :]
    middles = [_median(side) for side in sides]
    deviations = [side - middle for side, middle in zip(sides, middles, strict=True)]
    most = OUTLIER * 1.4826 * _median(np.abs(np.concatenate(deviations)))
    means, squares = [], 0.0
    for each in deviations:
        clipped = each.clip(-most, most)
        mean = float(clipped.sum()) / len(each)
        means.append(mean)
        squares += float(clipped @ clipped) - len(each) * mean * mean
    numbers = [len(side) / inflated for side in sides]
    variance = max(squares, 0.0) / (len(window) - 2)
    error = math.sqrt(variance * (1 / numbers[0] + 1 / numbers[1]))
    half_width = (
        float(scipy.special.stdtrit(max(sum(numbers) - 2, 1), (1 + confidence) / 2)) * error
    )
    log_ratio = middles[1] + means[1] - middles[0] - means[0]
    return ChangePoint(
        index=split,
        ratio=_exp(log_ratio),
        low=_exp(log_ratio - half_width),
        high=_exp(log_ratio + half_width),
        earliest=positions[0],
        latest=positions[1],
    )


def _median(values: Array) -> float:
    """Return the median as numpy does, in a fifth of the time."""
    n = len(values)
    ordered = np.partition(values, ((n - 1) // 2, n // 2))
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _exp(logarithm: float) -> float:
    """Return the exponential, infinite where it exceeds the range of floating-point numbers."""
    return math.exp(logarithm) if logarithm < LARGEST else math.inf
