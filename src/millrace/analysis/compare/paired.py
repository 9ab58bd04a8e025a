"""Comparisons of treatments' values that took turns in blocks, whoever measured them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.compare.false_discoveries import adjusted_p_values
from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.verdict import Power, decide, power
from millrace.model.measurements import Direction
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.sequential import FEWEST_BLOCKS


@dataclass(frozen=True)
class PairedComparison:
    """A candidate's values against the base's: effect, interval, verdict.

    ``estimate`` is candidate / base with an interval that holds for any number of looks, ``fixed``
    with that for a fixed number of blocks; None without a block that has both, of which there are
    ``n_blocks``. ``power`` is None where there are too few for a verdict. ``adjusted_p`` is
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
) -> tuple[PairedComparison, ...]:
    """Compare every other treatment with ``base``, in the order of ``values``.

    ``values`` holds for each treatment its positive values by block, in any one unit; ``margin`` is
    a fraction. A block that lacks one of the two is dropped from their comparison. The verdict goes
    by the interval that holds for any number of looks.
    """

    def compare(candidate: str) -> PairedComparison:
        ours, theirs = values[base], values[candidate]
        blocks = [block for block in ours if block in theirs]
        pairs = ([ours[block] for block in blocks], [theirs[block] for block in blocks])
        estimate = fixed = found = None
        verdict: Verdict | None = None
        reason = f"no block has both; at least {FEWEST_BLOCKS} are needed"
        if blocks:
            fixed = paired_ratio(*pairs, confidence=1 - alpha)
            estimate = paired_ratio(*pairs, confidence=1 - alpha, looks="any")
            verdict, reason = decide(estimate, direction, margin)
            found = power(estimate, margin)
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


def with_adjusted_p(compared: Sequence[PairedComparison]) -> tuple[PairedComparison, ...]:
    """Return the comparisons of one family, with p-values adjusted for their number."""
    adjusted = adjusted_p_values([each.estimate for each in compared])
    return tuple(replace(each, adjusted_p=p) for each, p in zip(compared, adjusted, strict=True))
