"""Search a series of logarithms for splits into levels, by their likelihood ratios.

``change_points`` describes the method and uses what is found here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from millrace.stats.level_density import LevelDensity, counted_density

Array = NDArray[np.float64]

FEWEST_POINTS = 4
SHORTEST_WINDOW = 40
LONGEST_WINDOW = 800
MOST_TOGETHER = 8
MOST_TRIES = 2


@dataclass(frozen=True)
class SplitSearch:
    """A search for splits, with cached results.

    ``known`` are the gains of the evaluated windows by first point and end, ``counted`` the
    residuals of segments, each as a level of its own.
    """

    logs: Array
    density: LevelDensity
    known: dict[tuple[int, int], Array] = field(default_factory=dict)
    counted: dict[tuple[int, int], Array] = field(default_factory=dict)

    def gains(self, first: int, end: int) -> Array:
        """Return the gains of the splits of a window that have enough points on both sides."""
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
    density: LevelDensity
    likelihood: float


def describe(search: SplitSearch, splits: list[int]) -> Described:
    """Return splits with the density and the likelihood of the values around their levels."""
    counts = [search.counts(*each) for each in pairwise([0, *splits, len(search.logs)])]
    return Described(splits, *counted_density(np.sum(counts, axis=0), search.density.step))


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
