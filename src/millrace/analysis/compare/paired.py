"""Compare treatments by their values alone, whoever measured them.

Values that took turns in blocks are paired. Counts of instructions need no blocks: a busy host does
not change them, so nothing that two counts of a block share would cancel in a pair. All counts of a
treatment are its evidence, and the interval is that of ``unpaired_ratio``, for one look. Counts
hardly differ, so a few of them decide.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType

from millrace.analysis.compare.comparability import ComparabilityRules, TrialWork, unequal_work
from millrace.analysis.compare.false_discoveries import adjusted_p_values
from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.verdict import Power, decide, decide_interval, power
from millrace.model.measurements import Direction
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats.ratio import RatioEstimate, paired_ratio, unpaired_ratio

_SMALLEST_NOISE = 1e-4  # of a value: trials whose rounding is finer do not repeat a number

Work = Mapping[str, Mapping[str, TrialWork]]
"""What became of the operations of trials, by treatment and block."""


@dataclass(frozen=True)
class PairedComparison:
    """A candidate's values against the base's: effect, interval, verdict.

    ``estimate`` is candidate / base with an interval that holds for any number of looks, ``fixed``
    with that for a fixed number of blocks; None without a block that has both. ``n_blocks`` is the
    number of these. ``power`` is None where there are too few for a verdict. ``adjusted_p`` is
    Benjamini and Yekutieli's; None without an interval. ``instructions`` are the means of both
    sides where values are counts of these, which need no blocks (see ``counted_values``).
    """

    base: str
    candidate: str
    estimate: RatioEstimate | None
    fixed: RatioEstimate | None
    n_blocks: int
    dropped: int
    verdict: Verdict
    reason: str
    power: Power | None
    adjusted_p: float | None = None
    instructions: tuple[float, float] | None = None


def compare_paired(
    values: Mapping[str, Mapping[str, float]],
    *,
    base: str,
    direction: Direction,
    margin: float,
    alpha: float,
    work: Work = MappingProxyType({}),
    unit_of_last_digit: float = 0.0,
) -> tuple[PairedComparison, ...]:
    """Compare every other treatment with ``base``, in the order of ``values``.

    ``values`` holds for each treatment its positive values by block, in any one unit, rounded to
    ``unit_of_last_digit``; ``margin`` is a fraction. A block that lacks one of the two is dropped
    from their comparison. The verdict goes by the interval that holds for any number of looks, and
    is inconclusive where the ``work`` of trials was not equal, and, without an interval, where both
    sides repeat a number in all blocks that trials do not repeat.
    """

    def compare(candidate: str) -> PairedComparison:
        ours, theirs = values[base], values[candidate]
        blocks = [block for block in ours if block in theirs]
        pairs = ([ours[block] for block in blocks], [theirs[block] for block in blocks])
        estimate = fixed = found = None
        verdict: Verdict | None = None
        reason = f"no block has both; at least {FEWEST_BLOCKS} are needed"
        if blocks:
            fixed = paired_ratio(
                *pairs, confidence=1 - alpha, unit_of_last_digit=unit_of_last_digit
            )
            estimate = paired_ratio(
                *pairs, confidence=1 - alpha, looks="any", unit_of_last_digit=unit_of_last_digit
            )
            verdict, reason = decide(estimate, direction, margin)
            found = power(estimate, margin)
            if estimate.is_as_wide_as_rounding and verdict != "equivalent":
                found = None
                reason += (
                    f"; rounding the values to {unit_of_last_digit:g} alone moves the ratio by up "
                    f"to {math.expm1(estimate.rounding) * 100:.2g} %"
                )
                if verdict == "inconclusive":
                    reason += ", so give more digits"
            if _is_one_run(pairs, unit_of_last_digit):
                verdict, found = "inconclusive", None
                reason = "the blocks have equal values, so they are one run and not "
                reason += f"{len(blocks)} trials"
                estimate, fixed = (
                    replace(each, low=None, high=None, log_sd=None, p_value=None)
                    for each in (estimate, fixed)
                )
            if unequal := _unequal(work, (base, candidate), blocks, margin):
                verdict, reason, found = "inconclusive", unequal, None
        return PairedComparison(
            base=base,
            candidate=candidate,
            estimate=estimate,
            fixed=fixed,
            n_blocks=len(blocks),
            dropped=len(ours.keys() | theirs.keys()) - len(blocks),
            verdict=verdict or "inconclusive",
            reason=reason,
            power=found,
        )

    return with_adjusted_p([compare(candidate) for candidate in values if candidate != base])


def _is_one_run(sides: Sequence[Sequence[float]], unit: float) -> bool:
    """Return whether each side repeats one number, finer than the noise of any trials.

    Whole numbers may be counts, such as bytes, which do not differ between trials.
    """
    return (
        len(sides[0]) >= FEWEST_BLOCKS
        and all(min(side) == max(side) for side in sides)
        and unit < 1
        and all(unit / 2 <= _SMALLEST_NOISE * side[0] for side in sides)
    )


def _unequal(work: Work, names: tuple[str, str], blocks: Sequence[str], margin: float) -> str:
    """Return why the work of two treatments in these blocks was not equal; empty if it was."""
    sides = [
        [
            replace(work[name][block], block=place)
            for place, block in enumerate(blocks)
            if all(block in work.get(each, {}) for each in names)
        ]
        for name in names
    ]
    # The values do not say which statements were sent, nor how many.
    rules = ComparabilityRules(margin, operations=0, same_statements=False)
    return unequal_work(sides[0], sides[1], names, rules).reason


def with_adjusted_p(compared: Sequence[PairedComparison]) -> tuple[PairedComparison, ...]:
    """Return the comparisons of one family, with p-values adjusted for their number."""
    adjusted = adjusted_p_values([each.estimate for each in compared])
    return tuple(replace(each, adjusted_p=p) for each, p in zip(compared, adjusted, strict=True))


def compare_counted(
    values: Mapping[str, Mapping[str, float]],
    *,
    base: str,
    direction: Direction,
    margin: float,
    alpha: float,
) -> tuple[PairedComparison, ...]:
    """Compare every other treatment with ``base``, in the order of ``values``.

    ``values`` holds for each treatment its counts, all positive; ``margin`` is a fraction.
    """

    def compare(candidate: str) -> PairedComparison:
        ours, theirs = (list(values[name].values()) for name in (base, candidate))
        estimate = unpaired_ratio(ours, theirs, confidence=1 - alpha)
        verdict: Verdict = "inconclusive"
        reason = "at least 2 counts of each are needed"
        if estimate.low is not None and estimate.high is not None:
            verdict, reason = decide_interval(
                estimate.ratio, estimate.low, estimate.high, direction, margin
            )
        return PairedComparison(
            base=base,
            candidate=candidate,
            estimate=estimate,
            fixed=estimate,
            n_blocks=estimate.n_pairs,
            dropped=0,
            verdict=verdict,
            reason=reason,
            power=None,
            instructions=(fmean(ours), fmean(theirs)),
        )

    return with_adjusted_p([compare(candidate) for candidate in values if candidate != base])
