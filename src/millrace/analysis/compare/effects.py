"""Model the factors on which the difference between a candidate and the base depends.

A candidate's comparisons, one for each combination of the held factors' levels, are a table of
log-ratios, to which ``stats.effects`` fits a model. A term of it (a factor, or a pair) matters
where its p-value, corrected for the number of terms, is at most alpha, and its levels lie apart by
more than the margin.

Each level has a verdict by the rule of all verdicts, on the mean over the other factors, with
intervals and error rates for the levels of its term together (Holm). So "only" is said where the
interval of every other level lies inside the margin, and "about the same everywhere" where that of
each comparison's distance from the mean does. A level with one comparison differs where that does,
as tables of all comparisons show; for others, it is known how many of theirs differ.

Several candidates are compared with the same trials of the base, so each has a model of its own,
with an equal share of alpha (Bonferroni): among all of them, the false discovery rate is alpha.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

from millrace.analysis.compare import model
from millrace.analysis.compare.verdict import decide_interval
from millrace.levels import Level
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats import effects
from millrace.stats.effects import Cell, Effect, FactorEffects, cell_of, factor_effects
from millrace.stats.ratio import RatioEstimate

_MOST_TERMS = 2  # of a candidate are reported
_FEWEST = 2  # comparisons, for something to depend on anything


def dependences(analysis: model.RunAnalysis) -> tuple[model.Dependence, ...]:
    """Compute the dependences of each candidate's difference on factors, in the candidates' order.

    Only candidates with at least two informative comparisons are included.
    """
    held = analysis.groups[0].fixed_factors if analysis.groups else {}
    factors = tuple(name for name in held if name not in analysis.constants)
    if not factors:
        return ()
    compared = [each for each in analysis.comparisons() if not each.same]
    tables = [
        _Table(candidate, [each for each in compared if each.candidate == candidate], factors)
        for candidate in dict.fromkeys(each.candidate for each in compared)
    ]
    telling = [table for table in tables if len(table.telling) >= _FEWEST]
    alpha = (1 - analysis.confidence) / max(len(telling), 1)
    return tuple(_dependence(table, analysis.margin, alpha) for table in telling)


def main_terms(dependence: model.Dependence) -> tuple[model.Term, ...]:
    """Return the largest terms that matter, without those that are part of a larger one."""
    main: list[model.Term] = []
    # A pair has its factors in it.
    for term in sorted(dependence.terms, key=lambda term: -log(term.spread) * len(term.factors)):
        is_part = any(set(term.factors) < set(other.factors) for other in main)
        if term.matters and not is_part:
            main.append(term)
    return tuple(main[:_MOST_TERMS])


@dataclass(frozen=True)
class _Table:
    """A candidate's comparisons in the headline metric, and the factors with several levels."""

    candidate: Level
    comparisons: Sequence[model.Comparison]
    factors: tuple[str, ...]

    @cached_property
    def telling(self) -> list[tuple[model.Comparison, RatioEstimate]]:
        """Return those with enough blocks of the same work, which have a spread."""
        return [
            (each, each.estimate)
            for each in self.comparisons
            if each.estimate is not None
            and each.estimate.log_sd
            and each.n_blocks >= FEWEST_BLOCKS
            and not (each.unequal or each.unsteady)
        ]

    @cached_property
    def names(self) -> Mapping[str, tuple[Level, ...]]:
        """Return the levels of each factor, which the model knows by their numbers."""
        return {
            factor: tuple(dict.fromkeys(each.fixed_factors[factor] for each, _ in self.telling))
            for factor in self.factors
        }

    def cells(self, alpha: float) -> list[Cell]:
        def numbers(of: model.Comparison) -> tuple[str, ...]:
            return tuple(
                str(all_.index(of.fixed_factors[name])) for name, all_ in self.names.items()
            )

        return [cell_of(numbers(each), estimate, alpha=alpha) for each, estimate in self.telling]

    def verdict(self, effect: Effect, margin: float) -> model.Verdict:
        direction = self.comparisons[0].metric.direction
        return decide_interval(effect.ratio, effect.low, effect.high, direction, margin)[0]

    def verdicts(self) -> list[tuple[model.Comparison, model.Verdict | None]]:
        """Return the comparisons with their verdicts; None for none, and for one by chance."""
        return [(each, None if each.not_significant else each.verdict) for each in self.comparisons]

    @property
    def everywhere(self) -> model.Verdict | None:
        """Return the verdict that all of them have, and not by chance."""
        verdicts = {verdict for _, verdict in self.verdicts()}
        return verdicts.pop() if len(verdicts) == 1 else None


def _dependence(table: _Table, margin: float, alpha: float) -> model.Dependence:
    cells = table.cells(alpha)
    # Each comparison a level by itself: how far it is from the mean, whatever the factors.
    single = [replace(cell, levels=(str(number),)) for number, cell in enumerate(cells)]
    by_itself = factor_effects(("comparison",), single, alpha=alpha)
    modelled: FactorEffects | None = None
    with suppress(ValueError):  # too many comparisons are missing to separate factors
        modelled = factor_effects(table.factors, cells, alpha=alpha)
    found = modelled or by_itself
    furthest = max(max(at.apart.high, 1 / at.apart.low) for at in by_itself.terms[0].at)
    return model.Dependence(
        candidate=table.candidate,
        factors=table.factors,
        confidence=1 - alpha,
        overall=found.overall,
        verdict=table.verdict(found.overall, margin),
        terms=tuple(_term(each, table, margin, alpha) for each in modelled.terms)
        if modelled
        else (),
        apart_at_most=furthest - 1,
        uniform=furthest < 1 + margin,
        everywhere=table.everywhere,
        unexplained=found.unexplained_p is not None and found.unexplained_p <= alpha,
        missing=len(table.comparisons) - len(cells),
        planned=len(table.comparisons),
    )


def _term(term: effects.Term, table: _Table, margin: float, alpha: float) -> model.Term:
    ratios = [each.apart.ratio for each in term.at]
    spread = max(ratios) / min(ratios)
    return model.Term(
        factors=term.factors,
        adjusted_p=term.adjusted_p,
        spread=spread,
        matters=term.matters and spread > 1 + margin,
        at=tuple(_levels_effect(each, term.factors, table, margin, alpha) for each in term.at),
    )


def _levels_effect(
    at: effects.AtLevels, factors: tuple[str, ...], table: _Table, margin: float, alpha: float
) -> model.LevelsEffect:
    levels = {
        factor: table.names[factor][int(number)]
        for factor, number in zip(factors, at.levels, strict=True)
    }
    own = [
        verdict
        for each, verdict in table.verdicts()
        if all(each.fixed_factors[factor] == level for factor, level in levels.items())
    ]
    verdict = table.verdict(at.here, margin)
    if len(own) == 1 and own[0] in model.DIFFERENCES:
        verdict = own[0]
    elif verdict in model.DIFFERENCES and (len(own) == 1 or not at.seen):
        verdict = "inconclusive"
    return model.LevelsEffect(
        levels=levels,
        here=at.here,
        verdict=verdict,
        apart=at.apart,
        stands_out=at.adjusted_p <= alpha,
        differing=sum(each in model.DIFFERENCES for each in own),
    )
