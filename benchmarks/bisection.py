"""Measure how often the noise-aware bisection finds the right member, and in how many runs.

64 members follow one that is good. One of them, chosen uniformly, is the first with a level that is
higher by some standard deviations of a single run. Noise is normal, Student's t with 3 degrees of
freedom, or recorded (`trial_noise.npz`: every search draws blocks of one benchmark) and scaled by
its own standard deviation. In cases without a change every member found is wrong; searches continue
for 400 runs, or end with the answer that nothing changed, or nothing beyond a margin.

Plain bisection serves for comparison. It measures each tested member 5 or 20 times and compares the
mean with the middle of the two levels, which it knows; nobody knows them in practice.

    benchmarks/bisection [--searches 1000] [--quick] [--json FILE]
"""

import argparse
import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks import json_file
from benchmarks.trial_noise import DATA, MISSING, pools
from millrace.stats.bisection import next_step
from millrace.stats.bisection_model import Found, Measured, Next, NoChange, Search, Skipped
from millrace.stats.proportions import proportion_limits

SUSPECTS = 64
MOST_RUNS = 1500
MOST_RUNS_FOR_NONE = 400
PLAIN = (5, 20)

Noise = Callable[[np.random.Generator], "Draw"]
Draw = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """A change of ``size`` standard deviations of a run, 0 for none, and what is claimed."""

    noise: str
    size: float
    confidence: float = 0.95
    every_unbuildable: int = 0  # of a member that cannot be built; 0 for none
    margin: float = 0.0  # size of a change that does not matter, in standard deviations of a run


CASES = (
    Case("normal", 0.5),
    Case("normal", 1.0),
    Case("normal", 2.0),
    Case("normal", 5.0),
    Case("t3", 0.5),
    Case("t3", 1.0),
    Case("t3", 2.0),
    Case("recorded", 0.5),
    Case("recorded", 1.0),
    Case("recorded", 2.0),
    Case("drifting", 1.0),
    Case("normal", 1.0, every_unbuildable=4),
    Case("normal", 1.0, confidence=0.8),
    Case("normal", 1.0, confidence=0.9),
    Case("normal", 1.0, confidence=0.99),
    Case("normal", 0.0),
    Case("t3", 0.0),
    Case("recorded", 0.0),
    Case("normal", 0.0, margin=0.5),
)


@dataclass(frozen=True)
class Row:
    """The outcome of many searches.

    ``correct`` counts ranges that hold the first bad member; where there is none, it counts
    searches that found none. ``covered`` counts intervals of the ratio that hold the truth, among
    those that were ``found``.
    """

    method: str
    noise: str
    size: float
    claimed: float | None
    searches: int
    correct: int
    rate_low: float
    rate_high: float
    found: int
    no_change: int
    covered: int
    mean_runs: float
    median_runs: float


def main() -> None:
    arguments = _arguments()
    searches = 20 if arguments.quick else arguments.searches
    cases = [case for case in CASES if case.noise != "recorded" or DATA.exists()]
    if len(cases) < len(CASES):
        print(MISSING)
    rows = []
    print(
        f"{'method':<12}{'noise':<16}{'size':>5}{'claimed':>9}{'searches':>9}{'correct':>9}"
        f"{'95 % interval':>17}{'found':>7}{'none':>6}{'covered':>9}{'runs':>8}{'median':>8}"
    )
    for number, case in enumerate(cases):
        methods: list[int | None] = [None]
        if case.size > 0 and case.confidence == 0.95 and not case.every_unbuildable:
            methods += PLAIN
        for repeats in methods:
            # A case costs as much as its runs: long cases are repeated less.
            count = searches if case.size >= 1 or repeats else max(searches // 4, 5)
            row = _row(case, repeats, count, np.random.default_rng([2024, number]))
            _print(row)
            rows.append(row)
    json_file.write(arguments.json, "bisection", rows=[asdict(row) for row in rows])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--searches", type=int, default=1000, help="of a case [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="20 searches a case: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def _print(row: Row) -> None:
    claimed = "" if row.claimed is None else f"{row.claimed:.2f}"
    covered = f"{row.covered / row.found:.3f}" if row.claimed and row.found and row.size else ""
    print(
        f"{row.method:<12}{row.noise:<16}{row.size:>5g}{claimed:>9}{row.searches:>9}"
        f"{row.correct / row.searches:>9.3f}{row.rate_low:>9.3f} to {row.rate_high:.3f}"
        f"{row.found:>7}{row.no_change:>6}{covered:>9}{row.mean_runs:>8.1f}{row.median_runs:>8.0f}",
        flush=True,
    )


def _row(case: Case, repeats: int | None, searches: int, source: np.random.Generator) -> Row:
    noise = NOISES[case.noise]
    outcomes = [
        _search(case, noise(source), source)
        if repeats is None
        else _plain(case, noise(source), source, repeats)
        for _ in range(searches)
    ]
    correct = sum(each.correct for each in outcomes)
    low, high = proportion_limits(correct, searches)
    return Row(
        method=f"plain x{repeats}" if repeats else "ours",
        noise=case.noise + ", gaps" * bool(case.every_unbuildable) + ", margin" * bool(case.margin),
        size=case.size,
        claimed=None if repeats else case.confidence,
        searches=searches,
        correct=correct,
        rate_low=low,
        rate_high=high,
        found=sum(each.kind == "found" for each in outcomes),
        no_change=sum(each.kind == "none" for each in outcomes),
        covered=sum(each.covered for each in outcomes),
        mean_runs=float(np.mean([each.runs for each in outcomes])),
        median_runs=float(np.median([each.runs for each in outcomes])),
    )


@dataclass(frozen=True)
class Outcome:
    """The outcome of one search, compared with the true change."""

    kind: str
    correct: bool
    covered: bool
    runs: int


def _search(case: Case, draw: Draw, source: np.random.Generator) -> Outcome:
    """Run one search; noise has a standard deviation of 1 in logarithms."""
    first_bad = int(source.integers(1, SUSPECTS + 1))
    search = Search(SUSPECTS + 1, confidence=case.confidence, margin=math.expm1(case.margin))
    seen: list[Measured | Skipped] = []
    if case.every_unbuildable:
        inner = range(1, SUSPECTS)
        seen += [Skipped(i) for i in inner if source.random() < 1 / case.every_unbuildable]
    unbuildable = len(seen)
    while True:
        runs = len(seen) - unbuildable
        step = next_step(search, seen)
        if isinstance(step, Found):
            right = case.size != 0 and step.first <= first_bad <= step.last
            covered = math.log(step.low) <= case.size <= math.log(step.high)
            return Outcome("found", right, covered, runs)
        if isinstance(step, NoChange):
            return Outcome("none", case.size == 0, False, runs)
        if runs == (MOST_RUNS if case.size > 0 else MOST_RUNS_FOR_NONE):
            return Outcome("open", case.size == 0, False, runs)
        assert isinstance(step, Next)
        level = case.size if step.index >= first_bad else 0.0
        seen.append(Measured(step.index, level + draw()))


def _plain(case: Case, draw: Draw, source: np.random.Generator, repeats: int) -> Outcome:
    first_bad = int(source.integers(1, SUSPECTS + 1))
    good, bad, runs = 0, SUSPECTS, 0
    while bad - good > 1:
        middle = (good + bad) // 2
        level = case.size if middle >= first_bad else 0.0
        mean = sum(level + draw() for _ in range(repeats)) / repeats
        runs += repeats
        good, bad = (good, middle) if mean > case.size / 2 else (middle, bad)
    return Outcome("found", bad == first_bad, False, runs)


def _normal(source: np.random.Generator) -> Draw:
    return lambda: float(source.standard_normal())


def _student(source: np.random.Generator) -> Draw:
    """Draw from Student's t with 3 degrees of freedom, whose variance is 3."""
    return lambda: float(source.standard_t(3)) / math.sqrt(3)


def _drifting(source: np.random.Generator) -> Draw:
    """Draw noise with a drift that makes a quarter of its variance.

    The drift has a correlation of 0.95 between runs."""
    drift = [float(source.standard_normal())]

    def draw() -> float:
        drift[0] = 0.95 * drift[0] + math.sqrt(1 - 0.95**2) * float(source.standard_normal())
        return math.sqrt(0.75) * float(source.standard_normal()) + 0.5 * drift[0]

    return draw


def _recorded(source: np.random.Generator) -> Draw:
    """Draw a random block of a random fork of one benchmark, which is drawn here."""
    pools = _pools()
    forks = pools[int(source.integers(len(pools)))]
    everything = np.concatenate(forks)
    mean, sd = float(everything.mean()), float(everything.std())

    def draw() -> float:
        fork = forks[int(source.integers(len(forks)))]
        return (float(fork[int(source.integers(len(fork)))]) - mean) / sd

    return draw


@functools.cache
def _pools() -> list[tuple[np.ndarray, ...]]:
    """Return the forks of the benchmarks that vary."""
    all_forks = [pool.forks for pool in pools()]
    return [forks for forks in all_forks if len(forks) > 1 and np.ptp(np.concatenate(forks)) > 0]


NOISES: dict[str, Noise] = {
    "normal": _normal,
    "t3": _student,
    "recorded": _recorded,
    "drifting": _drifting,
}


if __name__ == "__main__":
    main()
