"""Measure how often millrace misjudges the steadiness of trials, and refuses verdicts for it.

Series of seconds are simulated (a first-order autoregression with a fixed correlation of
neighbours), or recorded: blocks of iterations of real benchmarks' forks, in random order, which
makes them steady in any case; and in recorded order, whose steadiness is unknown. Intervals are
binomial (Clopper and Pearson, Biometrika 26, 1934)."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import json_file
from benchmarks.rates import Rate, rate_of, show
from benchmarks.trial_noise import DATA, MISSING, pools
from millrace.analysis.steady.policy import are_refused
from millrace.analysis.steady.steadiness import ALIKE_ALPHA, ALPHA
from millrace.stats.trend import Trend, classify_trend, detect_shared_drift

MARGIN = 0.02
LEVEL = 1000.0
LENGTHS = (10, 20, 30, 60, 300)  # seconds
CORRELATIONS = (0.0, 0.5, 0.8)
BLOCKS = (3, 5, 10)

Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 series a case instead of 1,000")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    runs = 200 if arguments.quick else 1000
    print(f"margin {MARGIN:g}, alpha {ALPHA:g}, {runs} series a case, seeds fixed")
    rates = [
        *show("Steady trials called unsteady, noise of 10 %", _steady(runs)),
        *show("Unsteady trials found, noise of 2 %", _unsteady(runs)),
        *show("Verdicts refused, trials of 30 s", _refused(runs)),
    ]
    if DATA.exists():
        rates += show("Recorded noise called unsteady", _recorded())
    else:
        print(f"\n{MISSING}")
    json_file.write(
        arguments.json, "steady_state", series=runs, rates=[asdict(rate) for rate in rates]
    )


def noise(source: np.random.Generator, n_points: int, rho: float) -> Floats:
    """Return an autoregression of standard deviation 1, from its stationary distribution."""
    values = source.standard_normal(n_points)
    for i in range(1, n_points):
        values[i] = rho * values[i - 1] + np.sqrt(1 - rho**2) * values[i]
    return values


def _course(values: NDArray[np.floating]) -> Trend:
    return classify_trend(values.tolist(), margin=MARGIN, alpha=ALPHA)


def _is_unsteady(values: NDArray[np.floating]) -> bool:
    return _course(values).kind != "steady"


def _n_unsteady(courses: Sequence[Trend]) -> int:
    """Return the number of unsteady trials of one treatment."""
    together = detect_shared_drift(courses, margin=MARGIN, alpha=ALIKE_ALPHA)
    return sum(course.kind != "steady" for course in together)


def _flags(
    runs: int, n_points: int, rho: float, shape: NDArray[np.floating] | float, sd: float
) -> list[bool]:
    source = np.random.default_rng(n_points)
    return [_is_unsteady(LEVEL * (shape + sd * noise(source, n_points, rho))) for _ in range(runs)]


def _steady(runs: int) -> Iterator[Rate]:
    for rho in CORRELATIONS:
        for n_points in LENGTHS:
            flags = _flags(runs, n_points, rho, 1.0, 0.1)
            yield rate_of(f"{n_points} s, correlation {rho:g}", flags)


def _unsteady(runs: int) -> Iterator[Rate]:
    shapes: dict[str, Callable[[Floats, int], NDArray[np.floating]]] = {
        "throughput falls by 7 %": lambda second, n: 1 - 0.07 * second / n,
        "a shift by 10 % after two thirds": lambda second, n: 1 - 0.1 * (second >= 2 * n / 3),
        "still warming up for a tenth, at a half": lambda second, n: 1 - 0.5 * (second < n / 10),
        "still warming up for a third, at 80 %": lambda second, n: 1 - 0.2 * (second < n / 3),
        "one wave of 10 %": lambda second, n: 1 + 0.05 * np.sin(2 * np.pi * second / n),
    }
    for name, shape in shapes.items():
        for n_points in LENGTHS[:-1]:
            for rho in CORRELATIONS[:2]:
                second = np.arange(n_points, dtype=np.float64)
                flags = _flags(runs // 4, n_points, rho, shape(second, n_points), 0.02)
                yield rate_of(f"{name}: {n_points} s, correlation {rho:g}", flags)


def _refused(runs: int) -> Iterator[Rate]:
    """Return how often verdicts on trials of 30 s from a pool are refused."""
    for sd in (0.02, 0.1):
        for rho in CORRELATIONS:
            what = f"noise of {sd:.0%}, correlation {rho:g}"
            yield from _refusals(runs, what, (1.0, 1.0), rho=rho, sd=sd)
    falls = 1 - 0.07 * np.arange(30) / 30
    for name, base in (("one side falls", 1.0), ("both sides fall", falls)):
        for rho in CORRELATIONS[:2]:
            what = f"{name} by 7 %, noise of 2 %, correlation {rho:g}"
            yield from _refusals(runs, what, (base, falls), rho=rho, sd=0.02)


def _refusals(
    runs: int, name: str, sides: Sequence[NDArray[np.floating] | float], *, rho: float, sd: float
) -> Iterator[Rate]:
    """Return how often verdicts are refused.

    ``sides`` are the shapes of the base's and the candidate's trials."""
    source = np.random.default_rng(2)
    pools_of = [
        [_course(LEVEL * (shape + sd * noise(source, 30, rho))) for _ in range(runs)]
        for shape in sides
    ]
    for blocks in BLOCKS:
        refused = []
        for _ in range(2 * runs):
            counts = [
                _n_unsteady([pool[i] for i in source.integers(runs, size=blocks)])
                for pool in pools_of
            ]
            refused.append(are_refused((counts[0], blocks), (counts[1], blocks)))
        yield rate_of(f"{name}: {blocks} blocks", refused)


def _recorded() -> Iterator[Rate]:
    source = np.random.default_rng(4)
    forks = [np.exp(fork) for pool in pools() for fork in pool.forks]
    for n_points in (10, 30):
        parts = [fork[-n_points:] for fork in forks if len(fork) >= n_points]
        by_lot = [_is_unsteady(source.permutation(part)) for part in parts]
        yield rate_of(f"{n_points} blocks of a fork, in an order drawn by lot", by_lot)
        yield rate_of(
            f"{n_points} last blocks of a fork, as they came", list(map(_is_unsteady, parts))
        )
    whole = [fork for fork in forks if len(fork) >= 30]
    yield rate_of("all blocks of a fork, as they came", list(map(_is_unsteady, whole)))


if __name__ == "__main__":
    main()
