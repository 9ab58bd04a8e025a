"""Measure how often a run refuses or gives up a comparison of like with like.

The run looks after every block. The benchmark also measures after how many blocks it gives up a
comparison that is incomparable.

The functions that compare a run compare three kinds of trials: unsteady ones with a given
probability, trials of simulated seconds, and trials whose clients did work with noise. A comparison
is *refused* after a number of blocks where it would have no verdict then, and *given up* at the
first look that closes it. The share refused at some look shows the cost of giving up at once. The
share not refused at some look before being given up shows how many would have a verdict if their
difference was plain. Looks start at block 5: no comparison is given up earlier. Intervals are
binomial (Clopper and Pearson, Biometrika 26, 1934).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import json_file
from benchmarks.rates import Rate, rate_of, show
from benchmarks.steady_state import LEVEL, noise
from millrace.analysis.compare.comparability import (
    Comparability,
    ComparabilityRules,
    TreatmentTrials,
    TrialWork,
    assess_comparability,
)
from millrace.analysis.steady.steadiness import ALPHA, TrialSteadiness, assess_trials
from millrace.stats.ratio import Looks
from millrace.stats.sequential import FIRST_LOOK
from millrace.stats.trend import Trend, classify_trend

MARGIN = 0.02
MOST = 40  # blocks
LIMITS = (16, MOST)
SHOWN = (FIRST_LOOK, *LIMITS)
GIVEN_UP = 0.05  # limit for comparisons of like with like
NAMES = ("base", "candidate")
TRIES = 100_000  # transactions per trial
SECONDS = 30

Source = np.random.Generator
Work = Callable[[Source], list[TrialWork]]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Limited(Rate):
    """A rate with its upper limit ``at_most``."""

    at_most: float | None


@dataclass(frozen=True)
class Watched:
    """The outcome of comparisons that were looked at after every block.

    For each comparison: whether it is refused after each number of blocks, the block at which it
    was refused first, the block at which it was not, and the block at which it was given up
    (infinite: never).
    """

    refused: dict[int, Flags]
    first: NDArray[np.float64]
    passed: NDArray[np.float64]
    after: NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 comparisons a case, not 500")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    runs = 100 if arguments.quick else 500
    print(f"margin {MARGIN:g}, {runs} comparisons a case, looks to block {MOST}, seeds fixed")
    rates = [
        *_titled("Unsteady trials, as frequent on both sides", _states(runs, LIKE_STATES)),
        *_titled("Unsteady trials, too many", _states(runs, UNLIKE_STATES)),
        *_titled("Seconds of steady trials", _seconds(runs)),
        *_titled("Work, alike on both sides", _works(runs, LIKE_WORK)),
        *_titled("The same by tests for one look", _works(runs, LIKE_WORK, looks="once")),
        *_titled("Work that differs", _works(runs, UNLIKE_WORK)),
    ]
    json_file.write(
        arguments.json, "refusals", comparisons=runs, rates=[asdict(rate) for rate in rates]
    )


def _titled(title: str, rates: Iterator[Limited]) -> list[Limited]:
    return show(title, rates, _goal)


def _goal(rate: Limited) -> str:
    if rate.at_most is None:
        return ""
    return f"; at most {rate.at_most:g}{', MISSED' if rate.low > rate.at_most else ''}"


def _rate(name: str, flags: Flags, *, at_most: float | None = None) -> Limited:
    return Limited(**asdict(rate_of(name, flags)), at_most=at_most)


def _told(name: str, watched: Watched, *, at_most: float | None = None) -> Iterator[Limited]:
    for blocks, flags in watched.refused.items():
        yield _rate(f"{name}: refused after {blocks} blocks", flags)
    for limit in LIMITS:
        yield _rate(f"{name}: refused at some look in {limit}", watched.first <= limit)
    for limit in LIMITS:
        passed = watched.passed <= np.minimum(watched.after, limit)
        yield _rate(f"{name}: not refused at some look in {limit}", passed)
    for limit in LIMITS:
        given_up = watched.after <= limit
        middle = ""
        if limit == MOST and given_up.mean() >= 0.5:
            middle = f", one half after {np.median(watched.after):g}"
        said = f"{name}: given up in {limit}{middle}"
        yield _rate(said, given_up, at_most=at_most)


def watch(
    runs: int,
    judged: Callable[[int], Comparability],
    begin: Callable[[], None],
    *,
    most: int = MOST,
) -> Watched:
    """Watch comparisons: ``begin`` draws one, ``judged`` returns its state after n blocks."""
    refused: dict[int, list[bool]] = {blocks: [] for blocks in SHOWN if blocks <= most}
    first, passed, after = np.full((3, runs), np.inf)
    for run in range(runs):
        begin()
        for blocks in range(FIRST_LOOK, most + 1):
            if np.isfinite(after[run]) and blocks not in refused:
                continue
            found = judged(blocks)
            seen = first if found.reason else passed
            seen[run] = min(seen[run], blocks)
            if found.permanently and not np.isfinite(after[run]):
                after[run] = blocks
            if blocks in refused:
                refused[blocks].append(bool(found.reason))
    flags_of = {blocks: np.asarray(flags) for blocks, flags in refused.items()}
    return Watched(flags_of, first, passed, after)


def trial(block: int, course: Trend) -> TrialSteadiness:
    """Return a trial with this measured part."""
    return TrialSteadiness(
        trial_id=f"trial-{block}", block=block,
        state="steady" if course.kind == "steady" else "unsteady",
        figure="throughput", trend=course, checks=(), seconds=SECONDS, warmup_s=5.0,
        measured_s=float(SECONDS), found_s=5.0, enough_s=35.0, transactions=TRIES,
    )  # fmt: skip


def watch_trials(
    runs: int,
    draw: Callable[[Source, int], Sequence[Trend]],
    *,
    seed: int = 1,
    most: int = MOST,
    looks: Looks = "any",
) -> Watched:
    """Watch trials: ``draw`` returns the series of trials of the base (0) or candidate (1)."""
    source = np.random.default_rng(seed)
    sides: list[list[TrialSteadiness]] = []

    def begin() -> None:
        sides[:] = [
            [trial(block, course) for block, course in enumerate(draw(source, side))]
            for side in (0, 1)
        ]

    def judged(blocks: int) -> Comparability:
        seen = (assess_trials(side[:blocks], margin=MARGIN, looks=looks) for side in sides)
        base, candidate = (
            TreatmentTrials(name, (), of) for name, of in zip(NAMES, seen, strict=True)
        )
        return _refusal(base, candidate, looks)

    return watch(runs, judged, begin, most=most)


def watch_work(
    runs: int, base: Work, candidate: Work, *, seed: int = 3, most: int = MOST, looks: Looks = "any"
) -> Watched:
    """Watch the work of comparisons whose sides both have these trials."""
    source = np.random.default_rng(seed)
    sides: list[list[TrialWork]] = []

    def begin() -> None:
        sides[:] = [base(source), candidate(source)]

    def judged(blocks: int) -> Comparability:
        first, second = (
            TreatmentTrials(name, work[:blocks], ())
            for name, work in zip(NAMES, sides, strict=True)
        )
        return _refusal(first, second, looks)

    return watch(runs, judged, begin, most=most)


def _refusal(base: TreatmentTrials, candidate: TreatmentTrials, looks: Looks) -> Comparability:
    return assess_comparability(base, candidate, ComparabilityRules(MARGIN, 0, True, looks))


LIKE_STATES = tuple((share, share) for share in (0.0, ALPHA, 0.05, 0.2, 0.4, 0.5))
UNLIKE_STATES = ((0.6, 0.1), (0.5, 0.0), (1.0, 0.0), (0.8, 0.8), (1.0, 1.0))
STEADY, UNSTEADY = Trend("steady"), Trend("drift", -0.07)


def unsteady_in(*shares: float) -> Callable[[Source, int], list[Trend]]:
    """Draw trials that are unsteady with these probabilities, of the base and of the candidate."""

    def draw(source: Source, side: int) -> list[Trend]:
        return [UNSTEADY if each else STEADY for each in source.random(MOST) < shares[side]]

    return draw


def _states(runs: int, shares: Sequence[tuple[float, float]]) -> Iterator[Limited]:
    for base, candidate in shares:
        found = watch_trials(runs, unsteady_in(base, candidate))
        at_most = GIVEN_UP if base == candidate <= 0.5 else None
        yield from _told(f"in {base:.0%} and {candidate:.0%}", found, at_most=at_most)


def _seconds(runs: int) -> Iterator[Limited]:
    for sd in (0.02, 0.1):
        for rho in (0.0, 0.5, 0.8):
            name = f"noise of {sd:.0%}, correlation {rho:g}"
            found = watch_trials(runs, of_seconds(runs, sd=sd, rho=rho))
            yield from _told(name, found, at_most=GIVEN_UP)
    falling = watch_trials(runs, of_seconds(runs, sd=0.02, rho=0.5, falls=(0.0, 0.07)))
    yield from _told("one side falls by 7 %, noise of 2 %, correlation 0.5", falling)


def of_seconds(
    n: int, *, sd: float, rho: float, falls: tuple[float, float] = (0.0, 0.0)
) -> Callable[[Source, int], list[Trend]]:
    """Draw trials from pools of ``n`` simulated ones; each side has a fall of its own."""
    source = np.random.default_rng(2)
    pools = [
        [
            classify_trend(
                (LEVEL * (1 - fall * np.arange(SECONDS) / SECONDS + sd * each)).tolist(),
                margin=MARGIN,
                alpha=ALPHA,
            )
            for each in (noise(source, SECONDS, rho) for _ in range(n))
        ]
        for fall in falls
    ]

    def draw(source: Source, side: int) -> list[Trend]:
        return [pools[side][i] for i in source.integers(n, size=MOST)]

    return draw


def errors(rate: float, bursts: float | None = None) -> Work:
    """Draw trials with this rate of errors; with ``bursts`` the rate varies with this CV."""

    def draw(source: Source) -> list[TrialWork]:
        rates = np.full(MOST, rate)
        if bursts is not None:
            a = (1 - rate) / bursts**2 - rate
            rates = source.beta(a, a * (1 - rate) / rate, size=MOST)
        hits = source.binomial(TRIES, rates)
        return [TrialWork(block, TRIES - int(each), int(each)) for block, each in enumerate(hits)]

    return draw


def bursts(share: float, size: float) -> Work:
    """Draw trials of which a share has this rate of errors, and the rest none."""

    def draw(source: Source) -> list[TrialWork]:
        hits = np.where(source.random(MOST) < share, round(size * TRIES), 0)
        return [TrialWork(block, TRIES - int(each), int(each)) for block, each in enumerate(hits)]

    return draw


def rows(spread: float, mean: float = 100.0) -> Work:
    """Draw trials whose transactions read and change numbers of rows that vary with this CV."""

    def draw(source: Source) -> list[TrialWork]:
        numbers = TRIES * mean * np.exp(spread * source.standard_normal((2, MOST)))
        return [
            replace(TrialWork(block, TRIES), rows_read=round(read), rows_affected=round(changed))
            for block, (read, changed) in enumerate(numbers.T)
        ]

    return draw


LIKE_WORK = {
    "errors in 0.2 %": (errors(0.002),) * 2,
    "errors in 0.5 %, in bursts (CV 0.5)": (errors(0.005, 0.5),) * 2,
    "errors in 2 %, in bursts (CV 0.5)": (errors(0.02, 0.5),) * 2,
    "errors in 5 %, in bursts (CV 1)": (errors(0.05, 1.0),) * 2,
    "errors in 20 % of 5 % of the trials": (bursts(0.05, 0.2),) * 2,
    "rows that vary by 0.5 %": (rows(0.005),) * 2,
    "rows that vary by 5 %": (rows(0.05),) * 2,
}
UNLIKE_WORK = {
    "errors in 1 % of one side, none of the other": (errors(0.01), errors(0.0)),
    "errors in 3 and 1 %, in bursts (CV 0.5)": (errors(0.03, 0.5), errors(0.01, 0.5)),
    "rows that vary by 0.5 %, 5 % fewer": (rows(0.005), rows(0.005, 95.0)),
}


def _works(
    runs: int, cases: dict[str, tuple[Work, Work]], *, looks: Looks = "any"
) -> Iterator[Limited]:
    for name, (base, candidate) in cases.items():
        at_most = GIVEN_UP if cases is LIKE_WORK and looks == "any" else None
        found = watch_work(runs, base, candidate, looks=looks)
        yield from _told(name, found, at_most=at_most)


if __name__ == "__main__":
    main()
