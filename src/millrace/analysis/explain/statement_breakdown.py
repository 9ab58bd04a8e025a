"""Break down the time of each statement, where an operation has several.

The share of the samples with a statement under way, in each state, times the time of all clients,
is how long an execution of it took in that state. Samples do not tell a thread on a CPU from one
that is ready and has none: the scheduler's events (``collect.sched_waits``) give the proportion;
where there were too few in some trial, the two are one part. A thread that waits for its client
while a statement is under way counts as client and wire. As in the breakdown of an operation no
part is computed as the rest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from millrace.analysis.explain.observations import US_PER_S, ObservedTrial
from millrace.analysis.explain.time_breakdown import (
    PARTS,
    STATES_OF,
    BreakdownDifference,
    PartKey,
    TimePart,
    TrialBreakdown,
    Value,
    breakdown_difference_of,
    marked,
    sampled_value,
    summed,
)
from millrace.stats.mean import MeanEstimate, mean_estimate

_CLASSES: Mapping[PartKey, tuple[str, ...]] = {
    "running": ("running",),
    **STATES_OF,
    "client_wire": ("network",),
}
_FEWEST = 10  # events that show a statement's thread on a CPU or ready for one, in each trial
STATEMENT_PARTS: Mapping[PartKey, str] = {
    "on_cpu": "on CPU",
    "runnable": PARTS["runnable"],
    "running": "on CPU, or ready without one",
    **{key: title for key, title in PARTS.items() if key in _CLASSES},
}


@dataclass(frozen=True)
class StatementBreakdown:
    """The breakdown of a statement over ``trials``: means, in µs of one execution.

    ``times`` is how often an operation sent it.

    ``latency`` is the client's, and the sum of ``parts`` and ``unaccounted``.
    """

    name: str
    times: float
    trials: tuple[TrialBreakdown, ...]
    latency: MeanEstimate
    parts: tuple[TimePart, ...]
    unaccounted: TimePart


@dataclass(frozen=True)
class StatementBreakdownDifference:
    """A statement of B less the same of A, paired by block.

    ``breakdown`` is in µs of an execution, ``of_operation`` in µs of all its executions in an
    operation, which take ``a_us`` and ``b_us``; there are ``a_times`` and ``b_times`` of them.
    Lines are marked after correction for those of all statements.
    """

    name: str
    a_times: float
    b_times: float
    a_us: float
    b_us: float
    of_operation: MeanEstimate
    breakdown: BreakdownDifference


@dataclass(frozen=True)
class _Executions:
    """The executions of a statement in a trial: how often, their breakdown, scheduler events."""

    times: float
    breakdown: TrialBreakdown
    scheduled: tuple[float, float]


def statement_breakdowns(trials: Sequence[ObservedTrial]) -> tuple[StatementBreakdown, ...]:
    """Return the time breakdown of each statement, in the order in which they were recorded.

    None where statements were not sampled, or where the only one is the operation itself.
    """
    found: dict[str, list[_Executions]] = {}
    for trial in trials:
        for name, executions in _of_trial(trial).items():
            found.setdefault(name, []).append(executions)
    breakdowns = []
    for name, of_trials in found.items():
        common = _with_common_parts(of_trials)
        times = sum(each.times for each in of_trials) / len(of_trials)
        means = summed(common, _titles(common))
        breakdowns.append(StatementBreakdown(name, times, tuple(common), *means))
    return tuple(breakdowns)


def statement_breakdown_differences(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[StatementBreakdownDifference, ...]:
    """Compare each statement of both sides, the largest difference of an operation first."""
    sides = [{trial.block: _of_trial(trial) for trial in trials} for trials in (a, b)]
    blocks = sorted(sides[0].keys() & sides[1].keys())
    names = dict.fromkeys(name for block in blocks for name in sides[0][block])
    found = []
    for name in names:
        both = [block for block in blocks if all(name in side[block] for side in sides)]
        of_a, of_b = ([side[block][name] for block in both] for side in sides)
        if difference := _difference(name, of_a, of_b):
            found.append(difference)
    found.sort(key=lambda each: -abs(each.of_operation.mean))
    lines = iter(marked([line for each in found for line in each.breakdown.lines]))

    def with_marks(breakdown: BreakdownDifference) -> BreakdownDifference:
        return replace(breakdown, lines=tuple(islice(lines, len(breakdown.lines))))

    return tuple(replace(each, breakdown=with_marks(each.breakdown)) for each in found)


def _difference(
    name: str, a: Sequence[_Executions], b: Sequence[_Executions]
) -> StatementBreakdownDifference | None:
    both = _with_common_parts([*a, *b])
    of_a, of_b = both[: len(a)], both[len(a) :]
    breakdown = breakdown_difference_of(of_a, of_b, _titles(both)) if both else None
    if breakdown is None:
        return None
    a_us, b_us = ([each.times * each.breakdown.latency_us for each in side] for side in (a, b))
    return StatementBreakdownDifference(
        name=name,
        a_times=sum(each.times for each in a) / len(a),
        b_times=sum(each.times for each in b) / len(b),
        a_us=sum(a_us) / len(a),
        b_us=sum(b_us) / len(b),
        of_operation=mean_estimate([in_b - in_a for in_a, in_b in zip(a_us, b_us, strict=True)]),
        breakdown=breakdown,
    )


def _of_trial(trial: ObservedTrial) -> dict[str, _Executions]:
    states, work = trial.observed.statements, trial.observed.work
    records = [
        record
        for record in trial.attempt.histograms
        if record.of == "statement" and record.kind == "service" and record.count
    ]
    if states is None or len(records) < 2:
        return {}
    found = {}
    for record in records:
        counts = states.counts.get(record.name, {})
        all_us = US_PER_S * work.clients * work.elapsed_s / record.count
        parts = {
            key: sampled_value(
                sum(counts.get(each, 0.0) for each in classes), states.samples, all_us
            )
            for key, classes in _CLASSES.items()
        }
        latency_us = US_PER_S * record.sum_s / record.count
        found[record.name] = _Executions(
            times=record.count / work.operations,
            breakdown=TrialBreakdown(trial.block, latency_us, parts, all_us, states.samples),
            scheduled=states.scheduled.get(record.name, (0, 0)),
        )
    return found


def _with_common_parts(executions: Sequence[_Executions]) -> list[TrialBreakdown]:
    """Return the breakdowns, all of the same parts."""
    if min((sum(each.scheduled) for each in executions), default=0) < _FEWEST:
        return [each.breakdown for each in executions]
    return [
        replace(each.breakdown, parts=_shared_out(each.breakdown.parts, *each.scheduled))
        for each in executions
    ]


def _titles(trials: Sequence[TrialBreakdown]) -> Mapping[PartKey, str]:
    return {key: title for key, title in STATEMENT_PARTS.items() if key in trials[0].parts}


def _shared_out(
    parts: Mapping[PartKey, Value], on_cpu: float, ready: float
) -> dict[PartKey, Value]:
    """Return the parts with the running one divided in two, by these numbers of events."""
    running, events = parts["running"], on_cpu + ready
    # With one event more of each: a few that are all alike do not make it certain.
    share = (on_cpu + 1) / (events + 2)
    error_us = running.us * math.sqrt(share * (1 - share) / events)

    def part(count: float) -> Value:
        of_it = count / events
        return Value(
            of_it * running.us,
            math.hypot(of_it * running.error_us, error_us),
            of_it * running.share,
        )

    found: dict[PartKey, Value] = {"on_cpu": part(on_cpu), "runnable": part(ready), **parts}
    del found["running"]
    return found
