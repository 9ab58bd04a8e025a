"""Find comparisons in slices whose sides stalled unequally.

The trimmed mean of slices leaves stalls out: a second in which a server answers nothing is a few
slices of some hundred. Throughput with stalls counts them. Where the two ratios differ beyond the
margin, paired by block, the verdict on the trimmed one is not the whole answer.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.model.measurements import WITH_STALLS
from millrace.stats.mean import MeanEstimate, mean_estimate


@dataclass(frozen=True)
class UnequalStalls:
    """A candidate, and the ``effect`` of its stalls beyond those of its base: a log ratio."""

    candidate: str
    effect: MeanEstimate


def unequal_stalls(
    treatments: Iterable[TreatmentAnalysis], headline: Metric, margin: float
) -> Iterator[UnequalStalls]:
    """Yield the candidates of a group whose stalls change the ratio to the base beyond a margin."""
    group = [each for each in treatments if each.in_slices]
    base = next((_lost(each, headline) for each in group if each.is_base), {})
    for each in group:
        lost = _lost(each, headline)
        both = sorted(base.keys() & lost.keys())
        if each.is_base or not both:
            continue
        effect = mean_estimate([lost[block] - base[block] for block in both])
        if effect.excludes_0 and abs(effect.mean) > math.log1p(margin):
            yield UnequalStalls(each.label, effect)


def _lost(treatment: TreatmentAnalysis, headline: Metric) -> dict[int, float]:
    """Return the log ratio of throughput with stalls to that without, by block."""
    with_stalls = treatment.by_block(WITH_STALLS)
    without = treatment.by_block(headline.name)
    return {
        block: math.log(with_stalls[block] / without[block])
        for block in with_stalls.keys() & without.keys()
    }
