"""Find comparisons in slices whose sides stalled unequally.

The trimmed mean of slices leaves stalls out: a second in which a server answers nothing is a few
slices of some hundred. Throughput with stalls counts them. Clients are compared without stalls, and
where the two ratios differ beyond the margin, paired by block, that verdict is not the whole
answer. Loads are compared with them, and that they make most of a difference is worth knowing.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.model.measurements import WITH_STALLS, WITHOUT_STALLS
from millrace.stats.mean import MeanEstimate, mean_estimate


@dataclass(frozen=True)
class UnequalStalls:
    """A candidate, and the ``effect`` of its stalls beyond those of its base: a log ratio.

    ``counted`` is whether the compared throughput counts them.
    """

    candidate: str
    effect: MeanEstimate
    counted: bool = False


def unequal_stalls(
    treatments: Iterable[TreatmentAnalysis], headline: Metric, margin: float
) -> Iterator[UnequalStalls]:
    """Yield the candidates of a group whose stalls change the ratio to the base beyond a margin.

    Where the headline counts stalls, yield those of whose difference stalls make at least half.
    """
    group = [each for each in treatments if each.in_slices]
    base = next((each for each in group if each.is_base), None)
    for each in group:
        if base is None or each.is_base:
            continue
        effects = _differences(_log_stall_loss(each, headline), _log_stall_loss(base, headline))
        if not effects:
            continue
        effect = mean_estimate(effects)
        if not effect.excludes_0 or abs(effect.mean) <= math.log1p(margin):
            continue
        counted = bool(each.by_block(WITHOUT_STALLS))
        if not counted or 2 * abs(effect.mean) >= abs(_log_ratio(each, base, headline)):
            yield UnequalStalls(each.label, effect, counted)


def _log_stall_loss(treatment: TreatmentAnalysis, headline: Metric) -> dict[int, float]:
    """Return log(throughput with stalls / without) by block: 0 without stalls, else below."""
    own, without = treatment.by_block(headline.name), treatment.by_block(WITHOUT_STALLS)
    # A load's headline counts stalls, that of clients is trimmed; the other metric stands beside.
    counted, trimmed = (own, without) if without else (treatment.by_block(WITH_STALLS), own)
    return {
        block: math.log(counted[block] / trimmed[block])
        for block in counted.keys() & trimmed.keys()
    }


def _log_ratio(candidate: TreatmentAnalysis, base: TreatmentAnalysis, headline: Metric) -> float:
    logs = [
        {block: math.log(value) for block, value in each.by_block(headline.name).items()}
        for each in (candidate, base)
    ]
    differences = _differences(*logs)
    return math.fsum(differences) / len(differences)


def _differences(of: dict[int, float], base: dict[int, float]) -> list[float]:
    return [of[block] - base[block] for block in sorted(of.keys() & base.keys())]
