"""Comparisons of counted instructions, whoever counted them.

Nothing that two counts of a block share would cancel in a pair: a busy host does not change them.
So all counts of a treatment are its evidence, and the interval is that of ``unpaired_ratio``, for
one look. Counts hardly differ, so a few of them decide.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.paired import PairedComparison, with_adjusted_p
from millrace.analysis.compare.verdict import decide_interval
from millrace.model.measurements import Direction
from millrace.stats.ratio import RatioEstimate
from millrace.stats.unpaired_ratio import unpaired_ratio


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
        estimate = _estimate(ours, theirs, confidence=1 - alpha)
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


def _estimate(
    base: Sequence[float], candidate: Sequence[float], *, confidence: float
) -> RatioEstimate:
    found = unpaired_ratio(base, candidate, confidence=confidence)
    return RatioEstimate(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        n_pairs=min(len(base), len(candidate)),
        confidence=confidence,
        log_sd=None,
        p_value=found.p_value,
    )
