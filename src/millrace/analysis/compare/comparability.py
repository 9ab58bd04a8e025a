"""Assess whether two treatments can be compared: by equal work, and by steady trials.

A run asks after every block whether more blocks may change a refusal. It gives a comparison up
where unequal work or missing steadiness is shown for any look.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from millrace.analysis.compare.equal_work import (
    ComparabilityRules,
    SkippedShares,
    TrialWork,
    unequal_work,
)
from millrace.analysis.steady.policy import lasts, unsteady_sides
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.stats.sequential import FIRST_LOOK

Incomparability = Literal["unequal", "unsteady"]


@dataclass(frozen=True)
class TreatmentTrials:
    """A treatment's finished trials, and its name in sentences."""

    name: str
    work: Sequence[TrialWork]
    steadiness: Sequence[TrialSteadiness]


@dataclass(frozen=True)
class Comparability:
    """The reasons why two treatments are not compared; empty where nothing speaks against it.

    ``permanently`` is the one that more blocks would not change. ``skipped`` are the shares of an
    open loop's schedule that were skipped, where these make the work unequal.
    """

    unequal: str
    unsteady: str
    permanently: Incomparability | None
    skipped: SkippedShares | None = None

    def without_steadiness(self) -> Self:
        """Return the same for what does not depend on steady trials."""
        permanently = None if self.permanently == "unsteady" else self.permanently
        return replace(self, unsteady="", permanently=permanently)

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, (self.unequal, self.unsteady)))


def assess_comparability(
    base: TreatmentTrials, candidate: TreatmentTrials, rules: ComparabilityRules
) -> Comparability:
    """Assess whether ``candidate`` can be compared with ``base``, by the blocks that both have."""
    names = (base.name, candidate.name)
    unequal = unequal_work(base.work, candidate.work, names, rules)
    sides = _of_the_same_blocks(base.steadiness, candidate.steadiness)
    unsteady = unsteady_sides(*sides, names=names)
    worked = {work.block for work in base.work} & {work.block for work in candidate.work}
    permanently: Incomparability | None = None
    if unequal.shows_difference and len(worked) >= FIRST_LOOK:
        permanently = "unequal"
    elif unsteady and lasts(*sides):
        permanently = "unsteady"
    return Comparability(unequal.reason, unsteady, permanently, unequal.skipped)


def _of_the_same_blocks(
    base: Sequence[TrialSteadiness], candidate: Sequence[TrialSteadiness]
) -> tuple[list[TrialSteadiness], list[TrialSteadiness]]:
    sides = (base, candidate)
    blocks = set.intersection(*({trial.block for trial in side} for side in sides))
    first, second = ([trial for trial in side if trial.block in blocks] for side in sides)
    return first, second
