"""Find reasons to doubt an explanation: breakdowns that do not close, trials that were disturbed.

A breakdown closes where the unaccounted time is a small share of the latency, or short, or may be
chance; one without samples of waits need not. A part below zero, which no time can be, is a defect
of the breakdown.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.explain.explanation import Explanation, Side, SideExplanation
from millrace.analysis.explain.statement_breakdown import StatementBreakdownDifference
from millrace.analysis.explain.time_breakdown import DifferenceLine, TrialBreakdown

_MOST_ALONE, _MOST_TOGETHER = 0.10, 0.15  # of the latency may be unaccounted: with one client, more
_LEAST_US = 2.0
_LEAST_OF_OPERATION = 0.05  # of its time: breakdowns of smaller statements need not close
_BEYOND_CHANCE = 2.0  # errors of counting


@dataclass(frozen=True)
class UnclosedBreakdown:
    """A side's breakdown that does not close.

    ``share`` is the fraction of the latency over all trials, negative where time was counted twice,
    None where only that of some blocks does not close; ``blocks`` maps these, from 0, to theirs.
    ``trials`` counts the side's trials.
    """

    side: Side
    share: float | None
    blocks: Mapping[int, float]
    trials: int


@dataclass(frozen=True)
class UnclosedStatements:
    """The unaccounted fractions of a side's statements that matter and do not close, any at all."""

    side: Side
    shares: Mapping[str, float]


@dataclass(frozen=True)
class NegativePart:
    """A part of a side's breakdown below zero by more than chance, in µs of an operation."""

    side: Side
    title: str
    us: float


@dataclass(frozen=True)
class DisturbedBlocks:
    """The number of disturbed ``blocks`` of a side's measured ``trials``; at least one."""

    side: Side
    blocks: int
    trials: int


@dataclass(frozen=True)
class Caveats:
    """All reasons to doubt an explanation, with clauses ``by`` on disturbances of its trials."""

    breakdowns: tuple[UnclosedBreakdown, ...]
    negative: tuple[NegativePart, ...]
    statements: tuple[UnclosedStatements, ...]
    disturbed: tuple[DisturbedBlocks, ...]
    by: tuple[str, ...]
    is_sequential: bool
    background_clients: bool


def caveats(explanation: Explanation) -> Caveats:
    """Collect the reasons why the answer of an explanation may be wrong."""
    measured = [each for each in explanation.disturbances if not each.profiled]
    disturbed = []
    for name, side in _sides(explanation):
        blocks = {each.block for each in measured if each.side == name}
        if blocks:
            disturbed.append(DisturbedBlocks(name, len(blocks), len(side.trials)))
    return Caveats(
        breakdowns=tuple(_unclosed_breakdowns(explanation)),
        negative=tuple(_negative_parts(explanation)),
        statements=tuple(_unclosed_statements(explanation)),
        disturbed=tuple(disturbed),
        by=tuple(each.clause for each in measured),
        is_sequential=explanation.run.design.kind == "sequential",
        background_clients=_has_background_clients(explanation),
    )


def _has_background_clients(explanation: Explanation) -> bool:
    """Return whether other clients worked while those of the test were measured."""
    definition = explanation.run.spec.definition_of_test(explanation.fixed_factors)
    return bool(definition.get("background_clients"))


def _sides(explanation: Explanation) -> tuple[tuple[Side, SideExplanation], ...]:
    return ("A", explanation.a), ("B", explanation.b)


def _unclosed_breakdowns(explanation: Explanation) -> Iterator[UnclosedBreakdown]:
    found = explanation.differences
    if found is None:
        return
    for (name, side), share in zip(_sides(explanation), found.left_shares, strict=True):
        assert side.breakdown is not None
        if not any(trial.samples for trial in side.breakdown.trials):
            continue
        trials = [trial for trial in side.breakdown.trials if trial.block in found.blocks]
        most = _most(side)
        us = found.unaccounted.a_us if name == "A" else found.unaccounted.b_us
        blocks = dict(_unclosed_blocks(trials, found.lines, most))
        if abs(share) > most and abs(us) > _LEAST_US:
            yield UnclosedBreakdown(name, share, blocks, len(trials))
        elif blocks:
            yield UnclosedBreakdown(name, None, blocks, len(trials))


def _unclosed_blocks(
    trials: Sequence[TrialBreakdown], lines: Sequence[DifferenceLine], most: float
) -> Iterator[tuple[int, float]]:
    for trial in trials:
        left_us = trial.left([line.key for line in lines]).us
        share = left_us / trial.latency_us if trial.latency_us else 0.0
        if abs(share) > most and abs(left_us) > _LEAST_US:
            yield trial.block, share


def _negative_parts(explanation: Explanation) -> Iterator[NegativePart]:
    found = explanation.differences
    if found is None:
        return
    for line in found.lines:
        sides = zip(_sides(explanation), line.below_zero, (line.a_us, line.b_us),
                    found.latencies_us, strict=True)  # fmt: skip
        for (name, side), is_below, us, latency_us in sides:
            if is_below and -us > max(_LEAST_US, _most(side) * latency_us):
                yield NegativePart(name, line.title, us)


def _most(side: SideExplanation) -> float:
    alone = side.breakdown is not None and side.breakdown.clients == 1
    return _MOST_ALONE if alone else _MOST_TOGETHER


def _unclosed_statements(explanation: Explanation) -> Iterator[UnclosedStatements]:
    found = explanation.statement_breakdown_differences
    for name, side in _sides(explanation):
        is_a = name == "A"
        operation_us = math.fsum(each.a_us if is_a else each.b_us for each in found)
        unclosed = {
            each.name: share
            for each in found
            if (each.a_us if is_a else each.b_us) >= _LEAST_OF_OPERATION * operation_us
            if (share := _unclosed_share(each, side, is_a=is_a)) is not None
        }
        if unclosed:
            yield UnclosedStatements(name, unclosed)


def _unclosed_share(
    each: StatementBreakdownDifference, side: SideExplanation, *, is_a: bool
) -> float | None:
    """Return the unaccounted share of a statement, if its time breakdown does not close."""
    left = each.breakdown.unaccounted
    us = left.a_us if is_a else left.b_us
    share = each.breakdown.left_shares[0 if is_a else 1]
    errors = [
        trial.left(list(trial.parts)).error_us
        for breakdown in side.statement_breakdowns
        if breakdown.name == each.name
        for trial in breakdown.trials
        if trial.block in each.breakdown.blocks
    ]
    by_chance_us = _BEYOND_CHANCE * math.hypot(*errors) / len(errors) if errors else 0.0
    if abs(share) <= _most(side) or abs(us) <= max(_LEAST_US, by_chance_us):
        return None
    return share
