"""Decide whether verdicts fail a gate, such as the check of a CI job."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.analysis.compare.model import DIFFERENCES, RunAnalysis
from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.history.series_verdicts import AnalyzedSeries

Gated = Literal["regression", "inconclusive"]

EXIT_STATUS: dict[Gated, int] = {"regression": 10, "inconclusive": 11}
"""Exit statuses of a gate that failed. A regression outranks an inconclusive verdict."""


@dataclass(frozen=True)
class GatedVerdict:
    """A verdict that a gate can fail on; ``subject`` names what it is about."""

    kind: Gated
    subject: str


def failing(verdicts: Iterable[GatedVerdict], fail_on: Collection[Gated]) -> list[GatedVerdict]:
    """Return the verdicts that fail the gate, all of the gravest kind there is; empty if none."""
    found = [each for each in verdicts if each.kind in fail_on]
    gravest = next((kind for kind in EXIT_STATUS if any(each.kind == kind for each in found)), None)
    return [each for each in found if each.kind == gravest]


def of_run(analysis: RunAnalysis) -> list[GatedVerdict]:
    """Return the verdicts of a run that a gate can fail on.

    A regression counts in every metric, where it survives the correction for the number of
    comparisons. In the headline metric alone, so does an inconclusive verdict, a missing one, or a
    difference that may be chance.
    """
    verdicts = []
    for group in analysis.groups:
        labels = {each.id: each.label for each in group.treatments}
        for each in group.comparisons:
            if each.same:
                continue
            subject = f"{labels[each.candidate_id]} in {each.metric.title}"
            if each.verdict == "regression" and not each.not_significant:
                verdicts.append(GatedVerdict("regression", subject))
            elif each.metric.name == analysis.headline.name and (
                each.lacks_verdict or each.undecided
            ):
                verdicts.append(GatedVerdict("inconclusive", subject))
    return verdicts


def of_pairs(comparisons: Iterable[PairedComparison], alpha: float) -> list[GatedVerdict]:
    """Return the verdicts of paired values that a gate can fail on, at this FDR."""
    verdicts = []
    for each in comparisons:
        not_significant = each.adjusted_p is not None and each.adjusted_p > alpha
        is_difference = each.verdict in DIFFERENCES
        if each.verdict == "regression" and not not_significant:
            verdicts.append(GatedVerdict("regression", each.candidate))
        elif each.verdict == "inconclusive" or (is_difference and not_significant):
            verdicts.append(GatedVerdict("inconclusive", each.candidate))
    return verdicts


def of_series(series: Sequence[AnalyzedSeries]) -> list[GatedVerdict]:
    """Return the change points, and series with too few points, that a gate can fail on."""
    verdicts = []
    for each in series:
        for point in each.points:
            if point.verdict in ("regression", "inconclusive"):
                kind: Gated = "regression" if point.verdict == "regression" else "inconclusive"
                verdicts.append(GatedVerdict(kind, f"{each.name} at {point.label}".strip()))
        if each.outcome == "too few points":
            verdicts.append(GatedVerdict("inconclusive", each.name))
    return verdicts
