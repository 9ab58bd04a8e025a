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

from millrace.analysis.compare.model import Comparison, Group
from millrace.stats.multiple_tests import benjamini_yekutieli
from millrace.stats.ratio import RatioEstimate


def adjusted_p_values(estimates: Sequence[RatioEstimate | None]) -> tuple[float | None, ...]:
    """Return the p-values of one family, adjusted for their number; None without an interval."""
    asked = [None if estimate is None else estimate.p_value for estimate in estimates]
    adjusted = iter(benjamini_yekutieli([p for p in asked if p is not None]))
    return tuple(None if p is None else next(adjusted) for p in asked)


def with_adjusted_p(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups, each comparison with its p-value among all of its metric."""
    comparisons = [comparison for group in groups for comparison in group.comparisons]
    adjusted: dict[tuple[str, str, str], float | None] = {}
    for metric in {comparison.metric.name for comparison in comparisons}:
        family = [each for each in comparisons if each.metric.name == metric and _claims(each)]
        found = adjusted_p_values([each.estimate for each in family])
        adjusted |= {_key(each): p for each, p in zip(family, found, strict=True)}
    return tuple(
        replace(
            group,
            comparisons=tuple(
                replace(each, adjusted_p=adjusted.get(_key(each))) for each in group.comparisons
            ),
        )
        for group in groups
    )


def _claims(comparison: Comparison) -> bool:
    return (
        comparison.verdict not in (None, "failed")
        and not comparison.unequal
        and not comparison.unsteady
    )


def _key(comparison: Comparison) -> tuple[str, str, str]:
    return comparison.base_id, comparison.candidate_id, comparison.metric.name
