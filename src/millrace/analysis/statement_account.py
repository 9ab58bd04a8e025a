"""Where the time of each statement went, where an operation has several.

A client's thread was looked at together with what its client had under way: the share of the looks
at which that was a statement, in each state, times the time of all clients, is what an execution of
it took in that state. Samples do not tell a thread on a CPU from one that is ready and has none, so
these are one part. Where a thread waits for its client while a statement is under way, the client
has not had the answer yet, or the server not the request: client and wire.

As in the account of an operation no part is what the others leave: the latency is the client's own
clock's, and what samples leave of it is unaccounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from millrace.analysis.account import (
    PARTS,
    STATES_OF,
    AccountDifferences,
    Part,
    PartKey,
    TrialAccount,
    compared,
    marked,
    sampled_value,
    summed,
)
from millrace.analysis.observed import US_PER_S, ObservedTrial
from millrace.stats import MeanEstimate, mean_estimate

_CLASSES: Mapping[PartKey, tuple[str, ...]] = {
    "running": ("running",),
    **STATES_OF,
    "client_wire": ("network",),
}
STATEMENT_PARTS: Mapping[PartKey, str] = {
    "running": "on CPU, or ready without one",
    **{key: title for key, title in PARTS.items() if key in _CLASSES},
}


@dataclass(frozen=True)
class StatementAccount:
    """The account of a statement over the ``trials`` in which it was carried out: means over them,
    in µs of one execution. ``times`` is how often an operation sent it.

    ``latency`` is the client's, and the sum of ``parts`` and ``unaccounted``.
    """

    name: str
    times: float
    trials: tuple[TrialAccount, ...]
    latency: MeanEstimate
    parts: tuple[Part, ...]
    unaccounted: Part


@dataclass(frozen=True)
class StatementDifferences:
    """A statement of B less the same of A, paired by block: in ``account`` in µs of an execution,
    in ``of_operation`` in µs of all its executions in an operation, which take ``a_us`` and
    ``b_us``; there are ``a_times`` and ``b_times`` of them. Lines are marked after correction for
    those of all statements."""

    name: str
    a_times: float
    b_times: float
    a_us: float
    b_us: float
    of_operation: MeanEstimate
    account: AccountDifferences


def statement_accounts(
    trials: Sequence[ObservedTrial], *, confidence: float = 0.95
) -> tuple[StatementAccount, ...]:
    """The account of each statement, in the order in which they were recorded; none where nobody
    looked at statements, or where there is one alone, of which the operation's account is."""
    found: dict[str, list[tuple[float, TrialAccount]]] = {}
    for trial in trials:
        for name, told in _of_trial(trial).items():
            found.setdefault(name, []).append(told)
    return tuple(
        StatementAccount(
            name,
            sum(times for times, _ in told) / len(told),
            tuple(each for _, each in told),
            *summed([each for _, each in told], STATEMENT_PARTS, confidence),
        )
        for name, told in found.items()
    )


def statement_differences(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial], *, confidence: float = 0.95
) -> tuple[StatementDifferences, ...]:
    """What differs in each statement that both sides carry out in some block, that first which
    makes most of the operation's difference."""
    sides = [{trial.block: _of_trial(trial) for trial in trials} for trials in (a, b)]
    blocks = sorted(sides[0].keys() & sides[1].keys())
    names = dict.fromkeys(name for block in blocks for name in sides[0][block])
    found = []
    for name in names:
        pairs = [
            (sides[0][block][name], sides[1][block][name])
            for block in blocks
            if name in sides[0][block] and name in sides[1][block]
        ]
        accounts = compared(
            [one for (_, one), _ in pairs],
            [other for _, (_, other) in pairs],
            STATEMENT_PARTS,
            confidence=confidence,
        )
        if accounts is None:
            continue
        a_us, b_us = (
            [times * each.latency_us for times, each in side] for side in zip(*pairs, strict=True)
        )
        found.append(
            StatementDifferences(
                name=name,
                a_times=sum(times for (times, _), _ in pairs) / len(pairs),
                b_times=sum(times for _, (times, _) in pairs) / len(pairs),
                a_us=sum(a_us) / len(pairs),
                b_us=sum(b_us) / len(pairs),
                of_operation=mean_estimate(
                    [in_b - in_a for in_a, in_b in zip(a_us, b_us, strict=True)],
                    confidence=confidence,
                ),
                account=accounts,
            )
        )
    found.sort(key=lambda each: -abs(each.of_operation.mean))
    lines = iter(marked([line for each in found for line in each.account.lines]))
    return tuple(
        replace(
            each,
            account=replace(each.account, lines=tuple(islice(lines, len(each.account.lines)))),
        )
        for each in found
    )


def _of_trial(trial: ObservedTrial) -> dict[str, tuple[float, TrialAccount]]:
    """Of each statement, how often an operation sent it, and its account."""
    looks, work = trial.observed.statements, trial.observed.work
    records = [
        record
        for record in trial.attempt.histograms
        if record.of == "statement" and record.kind == "service" and record.count
    ]
    if looks is None or len(records) < 2:
        return {}
    found = {}
    for record in records:
        counts = looks.counts.get(record.name, {})
        all_us = US_PER_S * work.clients * work.duration_s / record.count
        parts = {
            key: sampled_value(
                sum(counts.get(each, 0.0) for each in classes), looks.samples, all_us
            )
            for key, classes in _CLASSES.items()
        }
        latency_us = US_PER_S * record.sum_s / record.count
        account = TrialAccount(trial.block, latency_us, parts, all_us, looks.samples)
        found[record.name] = (record.count / work.operations, account)
    return found
