"""Correct the comparisons of a run for their number.

All comparisons of a metric, whatever their workload, their number of clients and their candidate,
are one family. A difference is left where its p-value, adjusted by the procedure of Benjamini and
Yekutieli (``stats.multiple_tests``), is at most alpha: of those that are left, the expected share
of false ones is alpha at most, however the comparisons depend on each other, and whenever each was
stopped.

A comparison makes no claim, and is not of the family, where it has no verdict, where a side failed,
where work was unequal, or where trials were not steady.
"""

from collections.abc import Sequence
from dataclasses import replace

from millrace.analysis.compare.model import Comparison
from millrace.stats.multiple_tests import benjamini_yekutieli, surviving_p
from millrace.stats.power import blocks_to_decide
from millrace.stats.ratio import RatioEstimate


def adjusted_p_values(estimates: Sequence[RatioEstimate | None]) -> tuple[float | None, ...]:
    """Return the p-values of one family, adjusted for their number; None without an interval."""
    asked = [None if estimate is None else estimate.p_value for estimate in estimates]
    adjusted = iter(benjamini_yekutieli([p for p in asked if p is not None]))
    return tuple(None if p is None else next(adjusted) for p in asked)


def with_adjusted_p(every: Sequence[Comparison], margin: float) -> tuple[Comparison, ...]:
    """Return the comparisons of a run, each with its p-value among all of its metric.

    Those that are undecided also have the number of blocks that would settle them.
    """
    found: dict[tuple[str, str, str], Comparison] = {}
    for metric in {comparison.metric.name for comparison in every}:
        family = [each for each in every if each.metric.name == metric and _claims(each)]
        adjusted = adjusted_p_values([each.estimate for each in family])
        corrected = [replace(each, adjusted_p=p) for each, p in zip(family, adjusted, strict=True)]
        found |= {_key(each): _with_more_blocks(each, corrected, margin) for each in corrected}
    return tuple(found.get(_key(each), each) for each in every)


def _with_more_blocks(
    comparison: Comparison, family: Sequence[Comparison], margin: float
) -> Comparison:
    """Return an undecided comparison with the blocks that would settle it among its family."""
    estimate = comparison.estimate
    if not comparison.undecided or estimate is None or estimate.p_value is None:
        return comparison
    tested = [each for each in family if each.estimate is not None and each.adjusted_p is not None]
    p_values = [each.estimate.p_value for each in tested if each.estimate is not None]
    alpha = surviving_p(
        [p for p in p_values if p is not None], tested.index(comparison), 1 - estimate.confidence
    )
    more = blocks_to_decide(estimate, margin, alpha=alpha)
    return replace(comparison, more_blocks=more)


def _claims(comparison: Comparison) -> bool:
    return (
        comparison.verdict not in (None, "failed")
        and not comparison.unequal
        and not comparison.unsteady
    )


def _key(comparison: Comparison) -> tuple[str, str, str]:
    return comparison.base_id, comparison.candidate_id, comparison.metric.name
