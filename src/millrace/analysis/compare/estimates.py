"""Estimate the ratios of all comparisons of a run in one metric.

The comparisons share what their trials tell about noise (``stats.shared_noise``), those in slices
and those of whole trials each among themselves: rounds of slices have a fraction of the noise. One
that something speaks against, such as unequal work, neither lends nor borrows: its trials may have
another noise. The noise of earlier runs of the experiment (``RunSpec.earlier_noise``) counts too.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from millrace.analysis.compare.comparability import Comparability
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Group, RunAnalysis
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import Level
from millrace.model.run_spec import LEAST_LOG_SD, MOST_LOG_SD, EarlierNoise
from millrace.stats.ratio import Looks, RatioEstimate, paired_ratio
from millrace.stats.shared_noise import GroupValues, Variance, shared_ratios

_Key = tuple[str, bool, frozenset[tuple[str, Level]]]
Earlier = Mapping[_Key, tuple[Variance, ...]]
"""The variances of earlier runs, by metric, design and fixed factors of a group."""


@dataclass(frozen=True)
class Pair:
    """A base and a candidate, their names in sentences, and what speaks against comparing them."""

    base: TreatmentAnalysis
    candidate: TreatmentAnalysis
    names: tuple[str, str]
    refused: Comparability


def estimate_ratios(
    pairs: Sequence[Pair], metric: Metric, looks: Looks, earlier: Earlier = MappingProxyType({})
) -> tuple[RatioEstimate | None, ...]:
    """Estimate the ratio of each pair; None where no block has both values."""
    found = _shared(pairs, metric, looks, earlier, in_slices=True)
    found |= _shared(pairs, metric, looks, earlier, in_slices=False)
    return tuple(
        found[number] if number in found else _alone(pair, metric, looks)
        for number, pair in enumerate(pairs)
    )


def _shared(
    pairs: Sequence[Pair], metric: Metric, looks: Looks, earlier: Earlier, *, in_slices: bool
) -> dict[int, RatioEstimate | None]:
    """Estimate the ratios of the pairs of one design that share evidence, by their numbers."""
    by_base: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        if pair.base.in_slices == in_slices and not pair.refused.reason:
            by_base.setdefault(pair.base.id, []).append(number)
    shared = shared_ratios(
        [
            group_of(
                pairs[numbers[0]].base,
                [pairs[number].candidate for number in numbers],
                metric,
                earlier,
            )
            for numbers in by_base.values()
        ],
        looks=looks,
    )
    return dict(
        zip(chain.from_iterable(by_base.values()), chain.from_iterable(shared), strict=True)
    )


def group_of(
    base: TreatmentAnalysis,
    candidates: Sequence[TreatmentAnalysis],
    metric: Metric,
    earlier: Earlier = MappingProxyType({}),
) -> GroupValues:
    """Return the values of a base and its candidates, with the noise of their earlier runs."""
    return GroupValues(
        base.by_block(metric.name),
        tuple(candidate.by_block(metric.name) for candidate in candidates),
        earlier.get(_key(metric.name, base.fixed_factors, in_slices=base.in_slices), ()),
    )


def by_group(noise: Iterable[EarlierNoise]) -> Earlier:
    """Return the variances of earlier runs by the group, metric and design that they are of."""
    found: dict[_Key, list[Variance]] = {}
    for each in noise:
        key = _key(each.metric, each.fixed_factors, in_slices=each.in_slices)
        found.setdefault(key, []).append(Variance(each.log_sd**2, each.degrees_of_freedom))
    return {key: tuple(variances) for key, variances in found.items()}


def _key(metric: str, fixed_factors: Mapping[str, Level], *, in_slices: bool) -> _Key:
    return metric, in_slices, frozenset(fixed_factors.items())


def _alone(pair: Pair, metric: Metric, looks: Looks) -> RatioEstimate | None:
    base, candidate = paired_values(pair.base, pair.candidate, metric)
    return paired_ratio(base, candidate, looks=looks) if base else None


def paired_values(
    base: TreatmentAnalysis, candidate: TreatmentAnalysis, metric: Metric
) -> tuple[list[float], list[float]]:
    """Return the values of the blocks in which both trials finished, in the order of the blocks."""
    ours, theirs = base.by_block(metric.name), candidate.by_block(metric.name)
    blocks = sorted(ours.keys() & theirs.keys())
    return [ours[block] for block in blocks], [theirs[block] for block in blocks]


_LEAST_FREEDOM = 2.0  # three blocks of two treatments


def noise_of_groups(analysis: RunAnalysis) -> Iterator[EarlierNoise]:
    """Yield the noise of each group in each metric, where there are blocks enough.

    Comparisons of unequal work or unsteady trials are left out, as where comparisons share their
    noise; so are attached servers, whose noise is that of another host or of the way there.
    """
    for group in analysis.groups:
        for base in (treatment for treatment in group.treatments if treatment.is_base):
            candidates = [] if _is_attached(base) else _fair_candidates(group, base)
            for metric in analysis.metrics if candidates else ():
                found = group_of(base, candidates, metric).variance
                if found is not None and round(found.freedom) >= _LEAST_FREEDOM:
                    yield EarlierNoise(
                        run=analysis.run.id,
                        metric=metric.name,
                        fixed_factors=group.fixed_factors,
                        in_slices=base.in_slices,
                        log_sd=min(max(math.sqrt(found.value), LEAST_LOG_SD), MOST_LOG_SD),
                        degrees_of_freedom=found.freedom,
                    )


def _fair_candidates(group: Group, base: TreatmentAnalysis) -> list[TreatmentAnalysis]:
    """Return the candidates of a base against whose comparison nothing speaks, in any metric."""
    unfair = {
        each.candidate_id
        for each in group.comparisons
        if each.base_id == base.id and (each.unequal or each.unsteady or each.verdict == "failed")
    }
    return [
        treatment
        for treatment in group.treatments
        if not (treatment.is_base or treatment.id in unfair or _is_attached(treatment))
    ]


def _is_attached(treatment: TreatmentAnalysis) -> bool:
    return any(instance.server.build.attached for instance in treatment.instances)
