"""Draw trials from recorded noise of real benchmarks, in which nothing differs.

The data (../shared/data/trial_noise.npz, with a description) are not part of the project, which has
no licence to redistribute them. A trial is a random block of a random fork (a restart) of one
benchmark.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "trial_noise.npz"

MISSING = f"the recorded noise is not on this machine: {DATA}"

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pool:
    """One benchmark: its forks, each the logarithms of its blocks."""

    forks: tuple[Array, ...]

    @property
    def spread(self) -> float:
        """Return the spread of single values, by their median absolute deviation."""
        values = np.concatenate(self.forks)
        return float(1.4826 * np.median(np.abs(values - np.median(values))))

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw this many trials."""
        lengths = np.asarray([len(fork) for fork in self.forks])
        starts = np.cumsum(lengths) - lengths
        chosen = source.integers(len(lengths), size=shape)
        blocks = (source.random(shape) * lengths[chosen]).astype(np.int64)
        values: Array = np.concatenate(self.forks)[starts[chosen] + blocks]
        return values

    def centred(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw this many trials with an expectation of 0, so that a factor scales noise alone."""
        return self.draw(source, shape) - float(np.mean([fork.mean() for fork in self.forks]))


def recorded() -> list[tuple[Array, ...]]:
    """Return the recorded values of each benchmark, by fork.

    Without the data the process ends with exit status 2 and the reason.
    """
    if not DATA.exists():
        print(f"{MISSING}", file=sys.stderr)
        sys.exit(2)
    data = np.load(DATA)
    benchmark, fork = data["benchmark"], data["fork"]
    value = data["value"].astype(np.float64)
    found = []
    for number in np.unique(benchmark):
        mine = benchmark == number
        found.append(tuple(value[mine & (fork == name)] for name in np.unique(fork[mine])))
    return found


def pools() -> list[Pool]:
    """Return the benchmarks with the logarithms of their values."""
    return [Pool(tuple(np.log(fork) for fork in forks)) for forks in recorded()]


def pairs(
    pool: Pool, source: np.random.Generator, *, runs: int, blocks: int, drift: tuple[float, float]
) -> Array:
    """Return log-ratios candidate / base, shape (runs, blocks), in random order within a block.

    ``drift`` is the size, in spreads of the pool, and the lag-1 autocorrelation of the disturbance
    of the host from trial to trial (a first-order autoregressive process)."""
    trials = pool.draw(source, (runs, blocks, 2))
    trials += drifting(pool, source, (runs, 2 * blocks), drift).reshape(trials.shape)
    first = source.integers(2, size=(runs, blocks)) * 2 - 1
    ratios: Array = (trials[..., 1] - trials[..., 0]) * first
    return ratios


def one_after_the_other(
    pool: Pool, source: np.random.Generator, *, runs: int, blocks: int, drift: tuple[float, float]
) -> Array:
    """Return log-ratios of runs with all trials of the base first, then all of the candidate."""
    trials = pool.draw(source, (runs, 2, blocks))
    trials += drifting(pool, source, (runs, 2 * blocks), drift).reshape(trials.shape)
    ratios: Array = trials[:, 1] - trials[:, 0]
    return ratios


def drifting(
    pool: Pool, source: np.random.Generator, shape: tuple[int, int], drift: tuple[float, float]
) -> Array:
    """Return an autoregressive process along the last axis, from its stationary state on."""
    size, correlation = drift
    steps = source.normal(size=shape)
    state = np.empty(shape)
    state[:, 0] = steps[:, 0]
    for trial in range(1, shape[1]):
        fresh = np.sqrt(1 - correlation**2) * steps[:, trial]
        state[:, trial] = correlation * state[:, trial - 1] + fresh
    return state * size * pool.spread


def disjoint_sides(pool: Pool, source: np.random.Generator) -> tuple[Sequence[Array], ...] | None:
    """Return five forks and five other forks; None where a benchmark has fewer than ten."""
    if len(pool.forks) < 10:
        return None
    order = source.permutation(10)
    return tuple([pool.forks[place] for place in side] for side in (order[:5], order[5:]))
