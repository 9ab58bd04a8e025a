"""Measure what it gains that the trials of a comparison are neighbours, on recorded noise.

A block of a run has trials of several tests on several servers. Their noise is that of as many
values in a row of one restart of a real benchmark, in which nothing differs. The order is random:
of all trials of the block, or of the tests and of the servers of each. The figure is the noise of
the log ratios of candidates to their base, where those of a test are neighbours, by that where they
are anywhere in the block: by the median of their absolute values, and by the root of the mean of
their squares, in which rare disturbances count most. It is the median of all benchmarks, with the
95 % interval of a bootstrap. In real runs each trial also has the effect of its own start, which no
order changes; the second line adds the recorded ones.

    benchmarks/trial_order [--tests 15] [--servers 3] [--json FILE]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from benchmarks import json_file
from benchmarks.trial_noise import pools

ORDERS = 50
RESAMPLES = 10_000

Array = NDArray[np.float64]


def main() -> None:
    arguments = _arguments()
    source = np.random.default_rng(1)
    shape = arguments.tests, arguments.servers
    known = [pool.forks for pool in pools()]
    longest = max(len(fork) for forks in known for fork in forks)
    if shape[0] < 1 or shape[1] < 2 or shape[0] * shape[1] > longest:
        _refuse(
            f"--tests {shape[0]} --servers {shape[1]}: a block has 1 test or more on 2 servers or "
            f"more, and at most {longest} trials: no recorded restart is longer"
        )
    print(
        f"{shape[0]} tests on {shape[1]} servers: noise of neighbours, by that of trials anywhere"
    )
    found = {}
    for name, with_starts in (("time alone", False), ("with starts", True)):
        ratios = gains(known, shape, source, with_starts=with_starts)
        found[name] = [median(each, source) for each in ratios.T]
        said = ", ".join(
            f"{which} {middle:.2f} ({low:.2f} to {high:.2f})"
            for which, (middle, low, high) in zip(("median", "r.m.s."), found[name], strict=True)
        )
        print(f"  {name:12} {said}, {len(ratios)} benchmarks")
    json_file.write(arguments.json, "trial_order", tests=shape[0], servers=shape[1], found=found)


def _refuse(reason: str) -> NoReturn:
    print(reason, file=sys.stderr)
    sys.exit(2)


def gains(
    benchmarks: Sequence[Sequence[Array]],
    shape: tuple[int, int],
    source: np.random.Generator,
    *,
    with_starts: bool,
) -> Array:
    """Return the noise of neighbours by that of trials anywhere, shape (benchmarks, 2).

    ``benchmarks`` have forks with the logarithms of their blocks, ``shape`` is (tests, servers).
    Columns are the medians of absolute values, and the roots of mean squares. Benchmarks whose
    forks are all shorter than a block of trials are left out.
    """
    found = []
    for forks in benchmarks:
        long = [fork[-shape[0] * shape[1] :] for fork in forks if len(fork) >= shape[0] * shape[1]]
        if not long:
            continue
        means = np.asarray([fork.mean() for fork in forks])
        drawn = [_ratios(fork, shape, source, means if with_starts else None) for fork in long]
        anywhere, neighbours = (np.concatenate(each) for each in zip(*drawn, strict=True))
        found.append(
            (
                np.median(np.abs(neighbours)) / np.median(np.abs(anywhere)),
                np.sqrt(np.mean(neighbours**2) / np.mean(anywhere**2)),
            )
        )
    return np.asarray(found)


def _ratios(
    values: Array, shape: tuple[int, int], source: np.random.Generator, starts: Array | None
) -> tuple[Array, Array]:
    """Return log ratios to the first server, of trials anywhere and of neighbours, in two orders.

    ``starts`` are the effects that a trial's start may have.
    """
    found = []
    orders = np.tile(np.arange(len(values)), (ORDERS, 1))
    within = source.permuted(np.tile(np.arange(shape[1]), (ORDERS, shape[0], 1)), axis=2)
    neighbours = within + shape[1] * np.arange(shape[0])[None, :, None]
    for places in (source.permuted(orders, axis=1).reshape(ORDERS, *shape), neighbours):
        trials = values[places]
        if starts is not None:
            trials = trials + source.choice(starts, size=trials.shape)
        found.append((trials[..., 1:] - trials[..., :1]).ravel())
    return found[0], found[1]


def median(ratios: Array, source: np.random.Generator) -> tuple[float, float, float]:
    """Return the median, and its 95 % interval by a bootstrap of benchmarks."""
    chosen = source.choice(ratios, size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(chosen, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", type=int, default=15)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
