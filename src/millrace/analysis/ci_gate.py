"""Decide whether verdicts fail a gate, such as the check of a CI job.

What was planned and has no verdict never passes for a good one: it is at least inconclusive.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.analysis.compare.model import DIFFERENCES, RunAnalysis
from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.history.series_verdicts import AnalyzedSeries
from millrace.quantities import counted

Gated = Literal["regression", "inconclusive"]

_CERTAIN = (*DIFFERENCES, "equivalent")

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
    comparisons. In the headline metric alone, so does all else that is not a certain improvement or
    equivalence: an inconclusive verdict, a missing or failed one, a difference that may be chance.
    A run is also inconclusive where trials have not ended, where tests were left out, or where
    nothing is compared.
    """
    verdicts = []
    for group in analysis.groups:
        labels = {each.id: each.label for each in group.treatments}
        for each in group.comparisons:
            if each.same:
                continue
            subject = f"{labels[each.candidate_id]} in {each.metric.title}"
            is_certain = each.verdict in _CERTAIN and not each.not_significant
            if each.verdict == "regression" and is_certain:
                verdicts.append(GatedVerdict("regression", subject))
            elif each.metric.name == analysis.headline.name and not is_certain:
                verdicts.append(GatedVerdict("inconclusive", subject))
    return [*verdicts, *(GatedVerdict("inconclusive", each) for each in _missing(analysis))]


def _missing(analysis: RunAnalysis) -> Iterator[str]:
    """Yield what was planned and not compared."""
    for group in analysis.groups:
        if not any(each.is_base for each in group.treatments):
            yield from (f"{each.label}, which has no base" for each in group.treatments)
    if all(each.same for each in analysis.comparisons()):
        yield "nothing, because the run compares nothing"
    for test in analysis.run.design.left_out_tests:
        yield f"test {test}, left out for lack of time"
    if waiting := sum(each.open for each in analysis.treatments):
        yield f"{counted(waiting, 'trial')} that {'has' if waiting == 1 else 'have'} not ended"


def of_pairs(comparisons: Iterable[PairedComparison], alpha: float) -> list[GatedVerdict]:
    """Return the verdicts of paired values that a gate can fail on, at this FDR."""
    verdicts = []
    for each in comparisons:
        may_be_chance = each.adjusted_p is not None and each.adjusted_p > alpha
        is_difference = each.verdict in DIFFERENCES
        if each.verdict == "regression" and not may_be_chance:
            verdicts.append(GatedVerdict("regression", each.candidate))
        elif each.verdict not in _CERTAIN or (is_difference and may_be_chance):
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
