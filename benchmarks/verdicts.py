"""Measure how often verdicts are wrong or detect a difference, and after how many blocks.

The data are recorded noise of real benchmarks; methods in common use serve for comparison.

A difference is decided where the interval excludes no difference. Counts are of simulated series;
those of one benchmark share its noise, so that binomial intervals (Clopper and Pearson, Biometrika
26, 1934) are a little too narrow. Each rate has its goal next to it, where one is known."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks import json_file, shared_noise
from benchmarks.rates import Rate, rate_of, show
from benchmarks.trial_noise import Array, Pool, disjoint_sides, one_after_the_other, pairs, pools
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats.sequential import FIRST_LOOK, sides

ALPHA = 0.05
MARGIN = np.log(1.02)
MOST = 40  # blocks
SIZES = (2, 5, 10, 20)  # percent
QUIET = (0.0, 0.0)
# Drift of the host: as large as the noise, and twice that but slower.
DRIFTS = {"drift": (1.0, 0.8), "slow drift": (2.0, 0.97)}

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged(Rate):
    """A rate; ``goal`` is the range in which it should lie."""

    goal: tuple[float, float] | None = None
    mean_blocks: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="4 series a benchmark instead of 40")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    runs = 4 if arguments.quick else 40
    known = pools()
    print(f"{len(known)} benchmarks, {runs} series each, alpha {ALPHA}, seeds fixed")
    rates = [
        *_titled("Other ways", lambda: _others(known, runs)),
        *_titled("A number of blocks fixed beforehand", lambda: _fixed(known, runs)),
        *_titled(
            f"A look after every block from {FIRST_LOOK} to {MOST}", lambda: _looking(known, runs)
        ),
        *_titled("Three ways, margin 2 %", lambda: _three_ways(known, runs)),
    ]
    print("\nEvidence shared in a run, against each comparison by itself")
    shared = list(shared_noise.shown(known, len(known) // (5 if arguments.quick else 1)))
    print("\nThe same for any number of looks")
    known_noise = {
        coverage: shared_noise.width_of_known_noise(known, FEWEST_BLOCKS, coverage)
        for coverage in (0.93, 0.95)
    }
    for coverage, width in known_noise.items():
        title = f"noise known exactly, {FEWEST_BLOCKS} blocks"
        print(f"  {title}: width {width:.3f} for a coverage of {100 * coverage:.0f} %")
    looks = list(shared_noise.shown_looks(known, 30 if arguments.quick else 150))
    json_file.write(
        arguments.json,
        "verdicts",
        benchmarks=len(known),
        series=runs,
        alpha=ALPHA,
        rates=[asdict(rate) for rate in rates],
        shared_noise=[asdict(figures) for figures in shared],
        known_noise=known_noise,
        shared_looks=[asdict(figures) for figures in looks],
    )


def _titled(title: str, measure: Callable[[], Sequence[Judged]]) -> Sequence[Judged]:
    return show(title, measure(), _note)


def _note(rate: Judged) -> str:
    goal = "" if rate.goal is None else f"; goal {rate.goal[0]:g} to {rate.goal[1]:g}"
    missed = rate.goal is not None and not rate.goal[0] <= rate.rate <= rate.goal[1]
    blocks = "" if rate.mean_blocks is None else f"  {rate.mean_blocks:4.1f} blocks"
    return f"{blocks}{goal}{', MISSED' if missed else ''}"


def _rate(
    name: str,
    flags: Flags,
    *,
    goal: tuple[float, float] | None = None,
    mean_blocks: float | None = None,
) -> Judged:
    return Judged(**asdict(rate_of(name, flags)), goal=goal, mean_blocks=mean_blocks)


def _noise(known: Sequence[Pool], runs: int, drift: tuple[float, float], seed: int) -> Array:
    """Return log-ratios without a difference, a row per series."""
    source = np.random.default_rng(seed)
    return np.concatenate(
        [pairs(pool, source, runs=runs, blocks=MOST, drift=drift) for pool in known]
    )


def _t_widths(ratios: Array) -> tuple[Array, Array]:
    """Return means and half-widths of Student's interval after each block."""
    numbers = np.arange(1, ratios.shape[1] + 1)
    means = np.cumsum(ratios, axis=1) / numbers
    squares = np.cumsum(ratios**2, axis=1) - numbers * means**2
    widths = np.full(ratios.shape, np.inf)
    later = numbers[1:]
    errors = np.sqrt(np.maximum(squares[:, 1:], 0) / (later * (later - 1)))
    widths[:, 1:] = stats.t.isf(ALPHA / 2, later - 1) * errors
    return means, widths


def _others(known: Sequence[Pool], runs: int) -> list[Judged]:
    source = np.random.default_rng(1)
    sides = [s for pool in known for _ in range(runs) if (s := disjoint_sides(pool, source))]
    rates = []
    for size in (0, 5, 10):
        shift = np.log1p(size / 100)
        found = [
            stats.ttest_ind(np.concatenate(a), np.concatenate(b) + shift, equal_var=False).pvalue
            for a, b in sides
        ]
        what = f"power at {size} %" if size else "false positives"
        name = f"Welch on pooled iterations of 5 + 5 trials, {what}"
        rates.append(_rate(name, np.asarray([p < ALPHA for p in found], dtype=np.bool_)))
    means, widths = _t_widths(_noise(known, runs, QUIET, 2))
    peeked = np.asarray((np.abs(means) > widths)[:, FIRST_LOOK - 1 :].any(axis=1))
    rates.append(_rate("t-test after every block, false positives", peeked))
    for size in (0, 5, 10):
        said, blocks = _stopped(
            _by_normal_prior(_noise(known, runs, QUIET, 4) + np.log1p(size / 100))
        )
        what = f"power at {size} %" if size else "false positives"
        name = f"t-test mixed over a normal prior, every block, {what}"
        rates.append(_rate(name, said == 1 if size else said != 0, mean_blocks=blocks))
    source = np.random.default_rng(3)
    in_turn = np.concatenate(
        [
            one_after_the_other(pool, source, runs=runs, blocks=10, drift=DRIFTS["slow drift"])
            for pool in known
        ]
    )
    means, widths = _t_widths(in_turn)
    name = "all of A first, 10 blocks, slow drift, false positives"
    rates.append(_rate(name, (np.abs(means) > widths)[:, -1]))
    return rates


def _by_normal_prior(ratios: Array) -> NDArray[np.int8]:
    """Return the side of 0 on which a mixed t-test lies after each block.

    The prior of the effect is normal, as large as the spread (Wang and Ramdas, arXiv 2310.03722).
    """
    means, widths = _t_widths(ratios)
    numbers = np.arange(2, ratios.shape[1] + 1)
    freedom = numbers - 1
    squares = (means / widths)[:, 1:] ** 2 * stats.t.isf(ALPHA / 2, freedom) ** 2 / freedom
    grown = np.log1p(squares) - np.log1p(squares / (1 + numbers))
    evidence = numbers / 2 * grown - np.log1p(numbers) / 2
    found = np.zeros(ratios.shape, dtype=np.int8)
    found[:, 1:] = np.sign(means[:, 1:]) * (evidence >= -np.log(ALPHA))
    found[:, : FIRST_LOOK - 1] = 0
    return found


def _fixed(known: Sequence[Pool], runs: int) -> list[Judged]:
    rates = []
    for name, drift in {"quiet": QUIET, **DRIFTS}.items():
        means, widths = _t_widths(_noise(known, runs, drift, 2))
        goal = (0.0, 0.05 if drift == QUIET else 0.06)
        for blocks in (5, 10, 20, MOST):
            wrong = np.abs(means[:, blocks - 1]) > widths[:, blocks - 1]
            rates.append(_rate(f"false positives, {blocks} blocks, {name}", wrong, goal=goal))
    means, widths = _t_widths(_noise(known, runs, QUIET, 2))
    for blocks in (5, 10, 20, MOST):
        covered = np.abs(means[:, blocks - 1]) <= widths[:, blocks - 1]
        rates.append(_rate(f"coverage, {blocks} blocks", covered, goal=(0.93, 0.98)))
    for size in SIZES:
        shifted = means[:, -1] + np.log1p(size / 100)
        rates.append(_rate(f"power at {size} %, {MOST} blocks", shifted > widths[:, -1]))
        wrong = shifted < -widths[:, -1]
        rates.append(_rate(f"wrong direction at {size} %", wrong, goal=(0.0, 0.005)))
    return rates


def _looking(known: Sequence[Pool], runs: int) -> list[Judged]:
    rates = []
    for name, drift in {"quiet": QUIET, **DRIFTS}.items():
        wrong = sides(_noise(known, runs, drift, 4), ALPHA) != 0
        goal = (0.0, 0.05 if drift == QUIET else 0.06)
        rates.append(
            _rate(f"false positives, {name}", wrong[:, FIRST_LOOK - 1 :].any(axis=1), goal=goal)
        )
    noise = _noise(known, runs, QUIET, 4)
    ever = (sides(noise, ALPHA) != 0).any(axis=1)
    name = f"false positives, quiet, looks from block {FEWEST_BLOCKS}"
    rates.append(_rate(name, ever, goal=(0.0, 0.05)))
    # The interval holds the true ratio where the interval of the noise holds no difference.
    rates.append(_rate(f"coverage at all looks to block {MOST}", ~ever, goal=(0.93, 0.98)))
    for size in SIZES:
        found = sides(noise + np.log1p(size / 100), ALPHA)
        found[:, : FIRST_LOOK - 1] = 0
        said, blocks = _stopped(found)
        goal_of = {10: (0.92, 1.0), 5: (0.75, 1.0)}.get(size)
        rates.append(_rate(f"power at {size} %", said == 1, goal=goal_of, mean_blocks=blocks))
        rates.append(_rate(f"wrong direction at {size} %", said == -1, goal=(0.0, 0.005)))
    return rates


def _stopped(found: NDArray[np.int8]) -> tuple[NDArray[np.int8], float]:
    """Return the first verdict, 0 where there is none, and the mean number of blocks until then."""
    stops = _stops(found)
    said: NDArray[np.int8] = found[np.arange(len(found)), stops]
    return said, float(stops.mean() + 1)


def _stops(found: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the index of the first look with a verdict, or of the last look."""
    says = found != 0
    return np.where(says.any(axis=1), says.argmax(axis=1), MOST - 1)


def _three_ways(known: Sequence[Pool], runs: int) -> list[Judged]:
    """Return the result of stopping at the first verdict of ``analysis.compare.verdict``.

    Unlike there, the estimate is the mean even where outliers move it out of the interval."""
    noise = _noise(known, runs, QUIET, 4)
    rates = []
    noise_means, widths = _t_widths(noise)
    for size in (0, *SIZES):
        ratios = noise + np.log1p(size / 100)
        means = np.cumsum(ratios, axis=1) / np.arange(1, MOST + 1)
        different = (sides(ratios, ALPHA) != 0) & (np.abs(means) > MARGIN)
        equivalent = (sides(ratios + MARGIN, ALPHA) == 1) & (sides(ratios - MARGIN, ALPHA) == -1)
        found = np.where(different, 1, np.where(equivalent, 2, 0)).astype(np.int8)
        found[:, : FIRST_LOOK - 1] = 0
        said, blocks = _stopped(found)
        rates += [
            _rate(f"{word} at {size} %", said == what, mean_blocks=blocks)
            for what, word in ((1, "regression or improvement"), (2, "equivalent"))
        ]
        at = (np.arange(len(found)), _stops(found))
        covered = np.abs(noise_means[at]) <= widths[at]
        rates.append(_rate(f"coverage of an interval of one look there, at {size} %", covered))
    return rates


if __name__ == "__main__":
    main()
