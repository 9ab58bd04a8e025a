"""Make performance histories with known changes, from recorded noise of real benchmarks.

Each point is a random block of a random fork (restart) of one benchmark, so that an unchanged
series is exchangeable. Drift is a first-order autoregression of the same spread on top.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pool = tuple[Array, ...]

LENGTH = 200
PERSISTENCE = 0.8
SIZES = (0.02, 0.05, 0.10)
GAP = 25
MARGIN = 5


@dataclass(frozen=True)
class Step:
    """A change of the level: from ``index`` on it is ``ratio`` times that before."""

    index: int
    ratio: float

    @property
    def size(self) -> float:
        return round(abs(self.ratio - 1), 2)


@dataclass(frozen=True)
class History:
    """Values in time, shape (n,), and the steps in them."""

    values: Array
    steps: tuple[Step, ...] = ()


def unchanged(
    source: np.random.Generator, pool: Pool, *, drift: bool, length: int = LENGTH
) -> History:
    """Return a history in which nothing changed."""
    forks = source.integers(len(pool), size=length)
    logs = np.log([source.choice(pool[fork]) for fork in forks])
    if drift:
        spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
        logs += autoregression(source, length, PERSISTENCE, spread)
    return History(np.exp(logs))


def injected(source: np.random.Generator, pool: Pool, *, drift: bool) -> History:
    """Return a history with three steps, each of ±2, ±5 or ±10 %.

    Steps are at least 25 points from each other and from both ends."""
    while True:
        places = np.sort(source.integers(GAP, LENGTH - GAP + 1, size=3))
        if (np.diff(places) >= GAP).all():
            break
    sizes = source.choice(SIZES, 3) * source.choice([-1, 1], 3)
    steps = tuple(Step(int(i), float(1 + size)) for i, size in zip(places, sizes, strict=True))
    return with_steps(unchanged(source, pool, drift=drift), steps)


def with_steps(history: History, steps: Sequence[Step]) -> History:
    """Return the same history with ``steps`` added."""
    values = history.values.copy()
    for step in steps:
        values[step.index :] *= step.ratio
    return History(values, (*history.steps, *steps))


def autoregression(
    source: np.random.Generator, length: int, persistence: float, sd: float
) -> Array:
    """Return a stationary first-order Gaussian autoregression with standard deviation ``sd``."""
    innovations = source.normal(0, sd * math.sqrt(1 - persistence**2), length)
    innovations[0] /= math.sqrt(1 - persistence**2)
    for i in range(1, length):
        innovations[i] += persistence * innovations[i - 1]
    return np.asarray(innovations)


def matched(found: Sequence[int], steps: Sequence[Step]) -> set[Step]:
    """Return the steps with a change point of their own within ±5 points, matched closest first."""
    pairs = sorted(
        (abs(index - step.index), index, number)
        for index in found
        for number, step in enumerate(steps)
        if abs(index - step.index) <= MARGIN
    )
    taken_indexes: set[int] = set()
    taken_steps: set[int] = set()
    for _, index, number in pairs:
        if index not in taken_indexes and number not in taken_steps:
            taken_indexes.add(index)
            taken_steps.add(number)
    return {steps[number] for number in taken_steps}
