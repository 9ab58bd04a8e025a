"""Find level changes in a performance history.

Values are compared by their logarithms. Each split of a window into two levels has a likelihood
ratio under the density that the series' own noise shows (``level_density``). A split is looked for
in windows of many lengths, 800 points at most (seeded binary segmentation: Kovács, Bühlmann, Li and
Munk, Biometrika 110, 2023), and each kept split is tested again between its neighbours. The
required evidence grows with the logarithm of the number of points, because many splits are tried,
and with the autocorrelation of the noise (``correlation``): drift of a machine looks like changes
of its level. A level has at least four points, and the evidence of one point is bounded, so that
spikes are not changes. Undetected steps hide one another: lists with little drift fit the density
around uncertain levels (``noise_density``), those with more try weak splits together
(``with_hidden``).

``EVIDENCE``, ``FURTHER``, ``HIDDEN``, ``MOST_INFLATION`` and the bandwidth of the density were
chosen among a hundred variants on recorded noise of 281 benchmarks (``benchmarks/history``), for
false alarms in few unchanged series. Noise whose autocorrelation is stronger than theirs (that of a
pure autoregression with a coefficient of 0.8) has false alarms in most series.
"""

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

from millrace.stats import level_density
from millrace.stats.correlation import inflation

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Sensitivity = Literal["review", "alert"]

FEWEST_POINTS = 4
SHORTEST_WINDOW = 40
LONGEST_WINDOW = 800
MOST_TOGETHER = 8
MOST_TRIES = 2
FEWEST_TO_TELL = 2 * FEWEST_POINTS  # points of a series with two levels
MOST_INFLATION = 4.5  # windows are too short for more, and estimates of more too uncertain
WEAK = 0.4  # of the required evidence: splits that may hide one another
TREND = 0.9
"""The correlation of neighbours, in ranks and around their levels, above which they have a trend.

Restarts of a system add noise to a machine's drift, so their correlation is lower; so is that of a
random walk that is split often enough.
"""
UPPER = 0.8  # a quantile of differences
NORMAL_UPPER = 1.2816  # that of a normal distribution's sizes, in standard deviations
LEAST_UPPER, MOST_UPPER = 0.8, 3.0  # times the median; noise of one mode lies between
FEWEST_FOR_MODES = 32  # points; fewer do not show where the modes of noise are
MOST_PAIRED = 200
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
    "review": _Evidence(beside_tries=-0.75, beside_drift=2.5),
    "alert": _Evidence(beside_tries=0.3, beside_drift=0.0),
}
FURTHER = _Evidence(beside_tries=-2.5, beside_drift=2.0)
"""The evidence for further splits of a series that certainly has one.

It is less than that for the first, since series with one change have others more often: false ones
are a small share of all that are found (Benjamini and Hochberg, Journal of the Royal Statistical
Society B 57, 1995), while few unchanged series have any.
"""
QUIET = _Evidence(beside_tries=-0.75, beside_drift=4.5)
"""The evidence for splits of a list with little drift, whose density has more freedom."""
ROUNDS = ((2, 0.5), (1, 1.0), (1, 1.0))
"""The fits of the density of quiet noise: numbers of rounds, and powers of the inflation.

After each fit, the inflation is estimated again from the residuals.
"""
CLEAR_DRIFT = 1.6  # the inflation above which uncertain levels would follow the drift
HIDDEN = _Evidence(beside_tries=1.25, beside_drift=0.75)
"""The evidence for splits that hide one another, for which the density is fitted again.

Only lists are examined for them: with a look after every point, some look would be a false alarm.
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
    unit_of_last_digit: float = 0.0,
) -> tuple[ChangePoint, ...]:
    """Return the change points of a history in their order.

    ``values``, shape (n,), are in the order of time, in any one positive unit. ``review`` suits a
    list for occasional review, ``alert`` an analysis after every new value that alerts somebody.
    The interval of a ratio, of that ``confidence``, is Student's on values without outliers, with
    as many degrees of freedom as there were independent values; it does not correct for the
    selection of the point by its levels. The interval of the position contains that share of the
    likelihood of all splits between the neighbouring ones, with drift weighted as above. Where
    values are rounded to ``unit_of_last_digit``, the interval of a ratio is at least as wide as the
    rounding error of both levels.

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
            unit_of_last_digit=unit_of_last_digit,
        )
        for (start, split), (_, end) in pairwise(pairwise([0, *found.splits, len(logs)]))
    )


def follows_trend(values: Sequence[float] | Array, *, sensitivity: Sensitivity = "review") -> bool:
    """Return whether a history of ``values`` has a trend instead of levels.

    In a trend, neighbours are far more alike than other pairs of points, both by rank and around
    the levels found, so any split is arbitrary. Such a history has no change points.
    """
    return _found(_logs(values), sensitivity).follows_trend


@dataclass(frozen=True)
class SplitSearch:
    """A search for splits, with cached results.

    ``known`` are the gains of the evaluated windows by first point and end, ``counted`` the
    residuals of segments, each as a level of its own.
    """

    logs: Array
    density: level_density.LevelDensity
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


@dataclass(frozen=True)
class _Found:
    search: SplitSearch
    splits: Sequence[int]
    inflated: float
    follows_trend: bool


def _found(logs: Array, sensitivity: Sensitivity) -> _Found:
    scale = _scale(logs)
    density = level_density.student_density(scale or 1.0)
    if len(logs) < FEWEST_TO_TELL or scale == 0:
        return _Found(SplitSearch(logs, density), (), 1.0, follows_trend=False)
    evidence = EVIDENCE[sensitivity]
    # As for strong drift: the residuals then separate drift from small steps.
    first = find_splits(SplitSearch(logs, density), evidence.wanted(len(logs), MOST_INFLATION))
    residuals = _residuals(logs, first, density)
    density = level_density.residual_density(residuals, scale)
    inflated = _inflation(residuals, density, len(first) + 1)
    if sensitivity == "review" and len(logs) >= SHORTEST_WINDOW and inflated <= CLEAR_DRIFT:
        search, splits, inflated = _quiet(logs, residuals, scale, inflated)
        return _Found(search, splits, inflated, _has_trend(logs, splits, search.density))
    threshold = evidence.wanted(len(logs), inflated)
    search = SplitSearch(logs, density)
    splits = find_splits(search, threshold)
    if splits != first:
        search = SplitSearch(logs, describe(search, splits).density)
        splits = find_splits(search, threshold)
    splits = refine(search, splits, threshold)
    if splits and sensitivity == "review" and len(logs) >= SHORTEST_WINDOW:
        further = FURTHER.wanted(len(logs), inflated)
        search = SplitSearch(logs, describe(search, splits).density)
        splits = refine(search, find_splits(search, further), further)
    if sensitivity == "review" and len(logs) >= SHORTEST_WINDOW:
        weak = WEAK * threshold
        splits, search = with_hidden(search, splits, weak, HIDDEN.wanted(len(logs), inflated))
    return _Found(search, splits, inflated, _has_trend(logs, splits, search.density))


def _quiet(
    logs: Array, around_first: Array, scale: float, inflated: float
) -> tuple[SplitSearch, list[int], float]:
    """Return the search, splits and inflation of a list with little drift.

    Its small steps may hide one another.
    """
    n = len(logs)
    density = level_density.student_density(scale)
    for rounds, power in ROUNDS:
        density = noise_density(around_first, density, inflated=inflated**power, rounds=rounds)
        search = SplitSearch(logs, density)
        splits = find_splits(search, QUIET.wanted(n, inflated))
        inflated = _inflation(_residuals(logs, splits, density), density, len(splits) + 1)
    threshold = QUIET.wanted(n, inflated)
    splits = refine(search, find_splits(search, threshold), threshold)
    if splits:
        further = FURTHER.wanted(n, inflated)
        splits = refine(search, find_splits(search, further), further)
    return search, splits, inflated


def _has_trend(logs: Array, splits: Sequence[int], density: level_density.LevelDensity) -> bool:
    """Return whether the values follow a trend that the splits do not explain."""
    return _rank_correlation(logs) > TREND and _has_smooth_residuals(
        logs, _residuals(logs, splits, density)
    )


def _rank_correlation(logs: Array) -> float:
    """Return the correlation of neighbours by von Neumann's ratio of ranks.

    Two levels have at most 0.75, whatever their noise (Bartels, Journal of the American Statistical
    Association 77, 1982).
    """
    ranks = scipy.stats.rankdata(logs)
    variance = float(ranks.var())
    return 1 - float((np.diff(ranks) ** 2).mean()) / (2 * variance) if variance else 0.0


def _has_smooth_residuals(logs: Array, residuals: Array) -> bool:
    """Return whether neighbours are far more alike than any two residuals from the levels.

    Both are measured by the same quantile of differences, which are alike for independent noise of
    any distribution.
    """
    some = residuals[:: max(len(residuals) // MOST_PAIRED, 1)]
    first, second = np.triu_indices(len(some), 1)
    apart = _upper(np.abs(some[first] - some[second]))
    return _upper(np.abs(np.diff(logs) - _slope(logs))) ** 2 < (1 - TREND) * apart**2


def _upper(sizes: Array) -> float:
    """Return a quantile above the median, which also reflects the distance between two modes."""
    return float(np.quantile(sizes, UPPER))


def _logs(values: Sequence[float] | Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("the values of a history must be positive and finite")
    return np.asarray(np.log(array))


def _scale(logs: Array) -> float:
    """Return a robust standard deviation of noise, from differences of neighbours; 0 without any.

    It usually uses the median difference. If most differences have the same size (two alternating
    hosts), or a short series has noise of several modes (weekends), it uses the upper quantile,
    because the median does not show the distance between modes.
    """
    if len(logs) < 2:
        return 0.0
    sizes = np.abs(np.diff(logs) - _slope(logs))
    typical, upper = 1.4826 * _median(sizes), float(np.quantile(sizes, UPPER)) / NORMAL_UPPER
    has_modes = upper > MOST_UPPER * typical and len(logs) < FEWEST_FOR_MODES
    if has_modes or upper < LEAST_UPPER * typical:
        typical = upper
    return (typical or float(np.abs(np.diff(logs)).mean())) / math.sqrt(2)


def _slope(logs: Array) -> float:
    """Return the rise per point of a trend, from differences of distant values.

    Differences of neighbours are too coarse if values are rounded.
    """
    lag = max(len(logs) // 4, 1)
    return _median(logs[lag:] - logs[:-lag]) / lag


def _positions(found: _Found, around: tuple[int, int, int], confidence: float) -> tuple[int, int]:
    """Return the range of positions with the share ``confidence`` of a split's likelihood."""
    window = window_around(*around)
    gains = found.search.gains(*window) / min(found.inflated, MOST_INFLATION)
    reached = np.cumsum(np.exp(gains - gains.max()))
    tails = reached[-1] * np.array([1 - confidence, 1 + confidence]) / 2
    first = window[0] + FEWEST_POINTS
    earliest, latest = (first + int(place) for place in np.searchsorted(reached, tails))
    return min(earliest, around[1]), max(latest, around[1])


def _residuals(logs: Array, splits: Sequence[int], density: level_density.LevelDensity) -> Array:
    segments = [logs[start:end] for start, end in pairwise([0, *splits, len(logs)])]
    return np.concatenate([segment - density.level(segment) for segment in segments])


def _inflation(residuals: Array, density: level_density.LevelDensity, n_levels: int) -> float:
    """Return the inflation of scores or, if larger, of ranks: modes hide drift in scores."""
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
    unit_of_last_digit: float,
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
    freedom = max(sum(numbers) - 2, 1)
    half_width = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * error
    rounding = sum(unit_of_last_digit / 2 * math.exp(-middle) for middle in middles)
    half_width = max(half_width, rounding)
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
    """Return the same median as numpy, five times as fast."""
    n = len(values)
    ordered = np.partition(values, ((n - 1) // 2, n // 2))
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _exp(logarithm: float) -> float:
    """Return the exponential; infinity if it exceeds the range of floats."""
    return math.exp(logarithm) if logarithm < LARGEST else math.inf


def find_splits(search: SplitSearch, threshold: float) -> list[int]:
    """Return the splits with evidence above ``threshold``, in their order."""
    found: list[int] = []
    open_segments = [(0, len(search.logs))]
    while open_segments:
        start, end = open_segments.pop()
        split = _best_split(search, start, end, threshold)
        if split is not None:
            found.append(split)
            open_segments += [(start, split), (split, end)]
    return sorted(found)


def _best_split(search: SplitSearch, start: int, end: int, threshold: float) -> int | None:
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
class Described:
    """Splits, the density of the residuals from their levels, and the likelihood of the values."""

    splits: list[int]
    density: level_density.LevelDensity
    likelihood: float


def describe(search: SplitSearch, splits: list[int]) -> Described:
    """Return splits with the density and the likelihood of the values around their levels."""
    counts = [search.counts(*each) for each in pairwise([0, *splits, len(search.logs)])]
    return Described(
        splits, *level_density.counted_density(np.sum(counts, axis=0), search.density.step)
    )


def with_hidden(
    search: SplitSearch, splits: list[int], weak_threshold: float, threshold: float
) -> tuple[list[int], SplitSearch]:
    """Return ``splits`` plus those that hide one another, and a search with their density.

    In the density, an undetected step looks like noise with one more mode, so the step has little
    evidence. Weaker splits are therefore tried together, with the density of their own residuals.
    """
    all_splits = splits
    for _ in range(MOST_TRIES):
        found = describe(search, all_splits)
        weak = [
            each
            for each in find_splits(search, weak_threshold)
            if all(abs(each - split) >= FEWEST_POINTS for split in all_splits)
        ]
        for first in range(0, len(weak), MOST_TOGETHER):
            strong = _strong(search, found, weak[first : first + MOST_TOGETHER], threshold)
            more = len(strong.splits) - len(found.splits)
            if strong.likelihood - found.likelihood > more * threshold:
                found = strong
        if found.splits == all_splits:
            break
        all_splits, search = found.splits, SplitSearch(search.logs, found.density)
    if all_splits != splits:
        all_splits = refine(search, all_splits, -math.inf)
    return all_splits, search


def _strong(search: SplitSearch, before: Described, weak: list[int], threshold: float) -> Described:
    """Add those ``weak`` splits to ``before`` that are needed to describe the values.

    The weakest split is removed while the others describe the values nearly as well without it.
    """
    strong = describe(search, sorted([*before.splits, *weak]))
    search = SplitSearch(search.logs, strong.density)
    while weak:
        without = before
        if len(weak) > 1:
            fewer = [[each for each in strong.splits if each != split] for split in weak]
            described = [describe(search, splits) for splits in fewer]
            without = max(described, key=attrgetter("likelihood"))
        if strong.likelihood - without.likelihood > threshold:
            break
        strong = without
        weak = [each for each in weak if each in without.splits]
    return strong


def refine(search: SplitSearch, splits: Sequence[int], threshold: float) -> list[int]:
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
            window = window_around(start, split, end)
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


def window_around(start: int, split: int, end: int) -> tuple[int, int]:
    """Return the window in which a split between two others is evaluated again."""
    return max(start, split - LONGEST_WINDOW // 2), min(end, split + LONGEST_WINDOW // 2)


JUMP = 0.02  # the probability that a point has another level than the one before
LONGEST_PIECE = 800  # so that memory is in proportion to the series
OUTERMOST = 4  # levels lie between values of this rank from both ends


def noise_density(
    residuals: Array, density: level_density.LevelDensity, *, inflated: float, rounds: int
) -> level_density.LevelDensity:
    """Estimate the density of ``residuals``, shape (n,), around unknown levels near 0.

    ``density`` is the one to begin with. The levels are a hidden Markov chain, which stays or
    rarely jumps to any level. Each round weights a value's residuals from all levels by the
    probabilities that the whole series gives these levels, and estimates the density from them
    (Baum, Petrie, Soules and Weiss, Annals of Mathematical Statistics 41, 1970). Steps that are not
    certain, and hide one another in the density of a single level, so take their part in it.
    Autocorrelation inflates all evidence, so log densities are divided by it.
    """
    pieces = [
        _places(piece, density.step)
        for piece in np.array_split(residuals, -(-len(residuals) // LONGEST_PIECE))
    ]
    for _ in range(rounds):
        counts = np.sum([_counts(places, density.table, inflated) for places in pieces], axis=0)
        density = level_density.weighted_density(counts, density.step)
    return density


def _places(residuals: Array, step: float) -> Places:
    """Return the table indices of all residuals from all levels, shape (n, levels)."""
    rank = min(OUTERMOST, (len(residuals) + 1) // 2)
    ordered = np.sort(residuals)
    low = max(float(ordered[rank - 1]), -level_density.REACH * step)
    high = min(float(ordered[-rank]), level_density.REACH * step)
    levels = low + step * np.arange(int(max(high - low, 0.0) / step + 1.5))
    return level_density.offset_bins(residuals[:, None] - levels, step)


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
