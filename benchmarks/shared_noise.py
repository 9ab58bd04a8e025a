"""Measure intervals that share what the comparisons of a run tell about noise.

The data are recorded noise of real benchmarks. A run has groups of treatments, each group with the
noise of one benchmark, and no treatment differs from another. Next to each figure is that of
intervals from a comparison's own blocks. With unequal noise, that of some treatments is multiplied.
Earlier runs have the noise of the same benchmark, and today's may have grown by a factor.
The spread of a figure is that of repetitions with other runs (two standard errors).

A false verdict is a regression or an improvement (margin 2 %) that survives the correction for the
number of comparisons.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.trial_noise import Pool
from millrace.analysis.compare.false_discoveries import adjusted_p_values
from millrace.analysis.compare.verdict import decide
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.shared_noise import GroupValues, shared_ratios

ALPHA = 0.05
MARGIN = 0.02
BLOCKS = (2, 3, 4, 5, 6)
TREATMENTS = (2, 3, 4, 6, 9, 12)
REPETITIONS = 10
LAST_LOOK = 20
EARLIER_BLOCKS = 5
_DRAWS = 20_000
WIDTHS_AT = (3, 4, 5, 6, 8, 12, 20)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Unequal:
    """The treatments of each group that are noisier, and the factors of their standard deviation.

    ``rest`` is the factor of all others. ``measured`` are the candidates whose coverage counts:
    those with a noisier side.
    """

    name: str
    factors: tuple[tuple[int, float], ...] = ()
    rest: float = 1.0
    measured: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Shape:
    """The size of a run."""

    blocks: int
    treatments: int  # of a group, with its base
    groups: int = 1
    earlier: int = 0  # runs of EARLIER_BLOCKS before it
    grown: float = 1.0  # the noise since these, as a factor

    @property
    def text(self) -> str:
        size = f"{self.blocks} x {self.treatments:2} x {self.groups:2}"
        if not self.earlier:
            return size
        grown = "" if self.grown == 1 else f", noise x {self.grown:g}"
        return f"{size} after {self.earlier}{grown}"


AFTER = (
    *(Shape(3, size, earlier=runs) for size in (2, 3, 6) for runs in (1, 2, 5, 8)),
    *(Shape(5, size, earlier=5) for size in (2, 6)),
    *(Shape(3, size, earlier=5, grown=by) for size in (2, 6) for by in (0.5, 1.5, 2.0, 3.0)),
)

THREE_TIMES = math.sqrt(3.0)  # the variance
EQUAL = Unequal("equal noise")
UNEQUAL = (
    Unequal("a candidate of three times the variance", ((1, THREE_TIMES),), measured=(1,)),
    Unequal("the base of three times the variance", ((0, THREE_TIMES),)),
    Unequal("all candidates of three times the variance", ((0, 1.0),), rest=THREE_TIMES),
    Unequal("a candidate of three times the spread", ((1, 3.0),), measured=(1,)),
    Unequal("the base of three times the spread", ((0, 3.0),)),
    Unequal("all candidates of three times the spread", ((0, 1.0),), rest=3.0),
)


@dataclass(frozen=True)
class Figures:
    """The figures of one shape of run; ``own`` ones are of the comparisons' own blocks alone."""

    name: str
    shape: Shape
    width: float  # ratio of mean widths
    width_spread: float
    root_mean_square: float  # ratio of root mean square widths
    coverage: float
    coverage_spread: float
    own_coverage: float
    false_verdicts: float  # of the comparisons
    own_false_verdicts: float
    false_runs: float  # with a false verdict
    own_false_runs: float

    @property
    def text(self) -> str:
        return (
            f"  {self.shape.text:34}{self.name:44} width {self.width:.3f} ±{self.width_spread:.3f} "
            f"(r.m.s. {self.root_mean_square:.3f})  coverage {100 * self.coverage:.1f} "
            f"±{100 * self.coverage_spread:.1f} % (own {100 * self.own_coverage:.1f})  "
            f"false verdicts {100 * self.false_verdicts:.2f} % "
            f"({100 * self.own_false_verdicts:.2f}), "
            f"runs {100 * self.false_runs:.1f} % ({100 * self.own_false_runs:.1f})"
        )


@dataclass(frozen=True)
class Looks:
    """Intervals for any number of looks, shared and own, with a look after every block."""

    name: str
    shape: Shape  # with the last look's blocks
    width: Mapping[int, float]  # ratio of mean widths by blocks
    ever_wrong: float  # of the comparisons whose interval ever excluded the truth
    spread: float
    own_ever_wrong: float

    @property
    def text(self) -> str:
        widths = ", ".join(f"{ratio:.2f} at {blocks}" for blocks, ratio in self.width.items())
        return (
            f"  {self.shape.text:34}{self.name:44} width {widths}  ever excludes the truth "
            f"{100 * self.ever_wrong:.1f} ±{100 * self.spread:.1f} % "
            f"(own {100 * self.own_ever_wrong:.1f})"
        )


def shown(known: Sequence[Pool], runs: int) -> Iterator[Figures]:
    """Print the figures of each shape of run as soon as they are known, and yield them."""
    print(f"  {REPETITIONS} times {runs} runs a line; blocks x treatments x groups")
    for figures in _measured(known, runs):
        print(figures.text, flush=True)
        yield figures


def shown_looks(known: Sequence[Pool], runs: int) -> Iterator[Looks]:
    """Print the figures of intervals for any number of looks, and yield them."""
    print(f"  {runs} runs a line, a look after every block from {FEWEST_BLOCKS}")
    cases = [(EQUAL, Shape(LAST_LOOK, treatments)) for treatments in (4, 6, 12)]
    cases += [(noise, Shape(LAST_LOOK, 6)) for noise in UNEQUAL]
    cases += [(EQUAL, Shape(LAST_LOOK, 2, 15)), (EQUAL, Shape(LAST_LOOK, 3, 15))]
    cases += [(EQUAL, Shape(LAST_LOOK, 2, earlier=5, grown=by)) for by in (1.0, 2.0)]
    for noise, shape in cases:
        found = measure_looks(known, runs // shape.groups, noise, shape)
        print(found.text, flush=True)
        yield found


def measure_looks(known: Sequence[Pool], runs: int, noise: Unequal, shape: Shape) -> Looks:
    """Return the figures of runs that are looked at after every block up to the last."""
    source = np.random.default_rng([shape.treatments, shape.groups])
    sums = {blocks: np.zeros(2) for blocks in WIDTHS_AT}
    wrong: list[list[float]] = []
    for _ in range(runs):
        drawn = [known[int(source.integers(len(known)))] for _ in range(shape.groups)]
        values, earlier, places = _drawn(drawn, source, noise, shape)
        ever = np.zeros((2, len(places)), dtype=np.bool_)
        for blocks in range(FEWEST_BLOCKS, shape.blocks + 1):
            both = _both([of_group[:blocks] for of_group in values], earlier, "any")
            counted = [[of[place] for place in places] for of in both]
            ever |= [[each.excludes_1 for each in of] for of in counted]
            if blocks in sums:
                sums[blocks] += [sum(map(_width, of)) for of in counted]
        wrong.append(ever.mean(axis=1).tolist())
    rates = np.asarray(wrong)
    return Looks(
        name=noise.name,
        shape=shape,
        width={blocks: float(shared / own) for blocks, (shared, own) in sums.items()},
        ever_wrong=float(rates[:, 0].mean()),
        spread=float(2 * rates[:, 0].std(ddof=1) / math.sqrt(runs)),
        own_ever_wrong=float(rates[:, 1].mean()),
    )


def width_of_known_noise(known: Sequence[Pool], blocks: int, coverage: float) -> float:
    """Return how wide intervals would be if the noise of each benchmark were known exactly.

    It is a ratio of mean widths, as in ``Figures``: of intervals that have one width for each
    benchmark and hold the truth with this coverage, to those of Student from their own blocks. That
    is about the limit of what evidence about noise can gain.
    """
    source = np.random.default_rng(blocks)
    quantile = float(stats.t.ppf(1 - ALPHA / 2, blocks - 1)) / math.sqrt(blocks)
    wide = own = 0.0
    for pool in known:
        pairs = pool.draw(source, (_DRAWS, blocks, 2))
        ratios = pairs[..., 1] - pairs[..., 0]
        wide += float(np.quantile(np.abs(ratios.mean(axis=1)), coverage))
        own += quantile * float(ratios.std(axis=1, ddof=1).mean())
    return wide / own


def _measured(known: Sequence[Pool], runs: int) -> Iterator[Figures]:
    """Yield the figures of one group, unequal noise, several groups, and after earlier runs."""
    for blocks in BLOCKS:
        for treatments in TREATMENTS:
            yield measure(known, runs, EQUAL, Shape(blocks, treatments))
    for noise in UNEQUAL:
        for blocks, treatments in ((3, 4), (3, 6), (5, 6), (10, 6)):
            yield measure(known, runs, noise, Shape(blocks, treatments))
    for shape in (Shape(3, 2, 15), Shape(3, 3, 15), Shape(3, 6, 5), Shape(5, 3, 15)):
        yield measure(known, runs // 5, EQUAL, shape)
    for shape in AFTER:
        yield measure(known, runs, EQUAL, shape)
    for noise in UNEQUAL:
        for treatments in (2, 6):
            yield measure(known, runs, noise, Shape(3, treatments, earlier=5))


def measure(known: Sequence[Pool], runs: int, noise: Unequal, shape: Shape) -> Figures:
    """Return the figures of runs of this shape; groups of a run have benchmarks at random."""
    source = np.random.default_rng([shape.blocks, shape.treatments, shape.groups])

    def figures() -> list[float]:
        drawn = [known[int(source.integers(len(known)))] for _ in range(shape.groups)]
        return _of_run(drawn, source, noise, shape)

    repeated = np.asarray(
        [np.mean([figures() for _ in range(runs)], axis=0) for _ in range(REPETITIONS)]
    )
    mean = repeated.mean(axis=0)
    error = 2 * repeated.std(axis=0, ddof=1) / math.sqrt(REPETITIONS)
    widths = repeated[:, 0] / repeated[:, 1]
    return Figures(
        name=noise.name,
        shape=shape,
        width=float(mean[0] / mean[1]),
        width_spread=float(2 * widths.std(ddof=1) / math.sqrt(REPETITIONS)),
        root_mean_square=math.sqrt(mean[2] / mean[3]),
        coverage=float(mean[4]),
        coverage_spread=float(error[4]),
        own_coverage=float(mean[5]),
        false_verdicts=float(mean[6]),
        own_false_verdicts=float(mean[7]),
        false_runs=float(mean[8]),
        own_false_runs=float(mean[9]),
    )


def _of_run(
    drawn: Sequence[Pool], source: np.random.Generator, noise: Unequal, shape: Shape
) -> list[float]:
    """Return widths, their squares, coverage and false verdicts of one run, shared and own."""
    values, earlier, places = _drawn(drawn, source, noise, shape)
    both = [_figures(estimates, places) for estimates in _both(values, earlier, "once")]
    return [figure for pair in zip(*both, strict=True) for figure in pair]


def _drawn(
    drawn: Sequence[Pool], source: np.random.Generator, noise: Unequal, shape: Shape
) -> tuple[list[Array], list[list[Array]], list[int]]:
    """Return each group's values, those of its earlier runs, and which comparisons count."""
    factors = np.full(shape.treatments, noise.rest)
    for place, factor in noise.factors:
        factors[place] = factor
    size = (shape.blocks, shape.treatments)
    before = (EARLIER_BLOCKS, shape.treatments)
    counted = [place - 1 for place in noise.measured or range(1, shape.treatments)]
    return (
        [np.exp(pool.centred(source, size) * factors * shape.grown) for pool in drawn],
        [
            [np.exp(pool.centred(source, before) * factors) for _ in range(shape.earlier)]
            for pool in drawn
        ],
        [
            group * (shape.treatments - 1) + place
            for group in range(shape.groups)
            for place in counted
        ],
    )


def _both(
    values: Sequence[Array], earlier: Sequence[Sequence[Array]], looks: Literal["once", "any"]
) -> tuple[list[RatioEstimate], list[RatioEstimate]]:
    """Return the estimates of all comparisons, with shared noise and with their own."""
    groups = [_after(*each) for each in zip(values, earlier, strict=True)]
    shared = chain.from_iterable(shared_ratios(groups, looks=looks))
    own = [
        paired_ratio(of_group[:, 0].tolist(), of_group[:, place].tolist(), looks=looks)
        for of_group in values
        for place in range(1, of_group.shape[1])
    ]
    return [each for each in shared if each is not None], own


def _after(values: Array, earlier: Sequence[Array]) -> GroupValues:
    known = (_group(each).variance for each in earlier)
    return replace(_group(values), earlier=tuple(each for each in known if each is not None))


def _group(values: Array) -> GroupValues:
    by_block = [dict(enumerate(column)) for column in values.T.tolist()]
    return GroupValues(by_block[0], tuple(by_block[1:]))


def _figures(estimates: Sequence[RatioEstimate], places: Sequence[int]) -> list[float]:
    """Return mean width, mean square, coverage, false verdicts, and whether there is any."""
    adjusted = adjusted_p_values(estimates)
    widths = np.asarray([_width(estimates[place]) for place in places])
    wrong = [
        decide(each, "higher", MARGIN)[0] in ("regression", "improvement")
        and p is not None
        and p <= ALPHA
        for each, p in zip(estimates, adjusted, strict=True)
    ]
    covered = [not estimates[place].excludes_1 for place in places]
    return [
        float(widths.mean()),
        float((widths**2).mean()),
        float(np.mean(covered)),
        float(np.mean([wrong[place] for place in places])),
        float(any(wrong)),
    ]


def _width(estimate: RatioEstimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return math.log(estimate.high / estimate.low)
