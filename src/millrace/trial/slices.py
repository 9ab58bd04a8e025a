"""Give each server of a round its own part of the load generator's result.

Clients that were driven yield one result of all sides, and loads one of each.

The rates of a round are those of its slices. A *group* of slices has two of each side, in an order
and its mirror image (of two sides ABBA or BAAB), so that a drift inside the group meets all sides
alike. The ratio of a side to the base is the trimmed mean of the groups' log ratios: a stall of a
second in one slice would otherwise outweigh a thousand others (Wilcox, Introduction to Robust
Estimation and Hypothesis Testing, 2012, 2.2.3, for the mean that leaves out a fifth at each end).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.errors import TrialFailed
from millrace.loadgen.events import DriveResult, LoadResult, PhaseResult, Slice
from millrace.model import measurements as names

_TRIMMED = 0.2  # at each end


@dataclass(frozen=True)
class SideResult:
    """The result of one side: its clients' own work, and the time that its own slices took.

    ``trimmed_s`` is the time of the ``phase`` in slices where its transactions, or rows, take their
    trimmed mean rate, ``slices`` the number of its slices, ``round_s`` the time of all sides. Of
    clients, the duration of the phase is the time of their transactions at the mean rate of the
    slices. A side that is slowed down rests for ``rested_share`` of its slices' time.
    """

    result: LoadResult
    phase: str
    trimmed_s: float
    slices: int
    round_s: float
    rested_share: float = 0.0


def by_side(result: LoadResult, sides: int, base: int) -> list[SideResult]:
    """Return the results of the sides; all are compared with the one of number ``base``.

    A single group of slices is enough, as of transactions that take seconds: the spread of rounds
    tells what it is worth. Raise TrialFailed where there is none.
    """
    driven = result.driven()
    assert driven is not None
    assert driven.sides is not None
    assert driven.slices is not None
    groups = _groups(driven.slices, sides)
    if not groups:
        raise TrialFailed(
            "in no group of slices did transactions of each server succeed",
            hint="look at the servers' error logs and at the test's statements",
        )
    rates = _trimmed_rates(groups, sides, base)
    return [_side(result, driven, side, rates[side]) for side in range(sides)]


def given_up(result: LoadResult, base: int) -> Mapping[str, float]:
    """Return what a round that a limit of time ended shows of the side that was waited for.

    These are measurements by name: how long its oldest transaction was under way, and how long one
    of the base took on average, in the warm-up too. Empty where nothing was under way.
    """
    driven = result.driven()
    if driven is None or not driven.unanswered_s:
        return {}
    found = {names.UNANSWERED_S: driven.unanswered_s}
    assert driven.sides is not None
    of_base = driven.sides[base]
    measured = [record.service for record in of_base.transactions]
    transactions = of_base.before + sum(service.count for service in measured)
    took_s = of_base.before_s + sum(service.sum_s for service in measured)
    return found | ({names.BASE_TRANSACTION_S: took_s / transactions} if took_s else {})


def _side(result: LoadResult, driven: DriveResult, side: int, trimmed_rate: float) -> SideResult:
    """Return the result of a side whose clients were driven.

    The records also hold transactions outside of whole groups, whose slices nobody kept. So each
    time is what all of them take at a rate of the slices: ``duration_s`` at the mean rate, stalls
    included, ``trimmed_s`` at the trimmed one.
    """
    assert driven.sides is not None
    assert driven.slices is not None
    own = [each for each in driven.slices if each.side == side]
    slices_s = sum(map(_seconds, own))
    mean_rate = sum(each.transactions for each in own) / slices_s
    rested_s = sum(each.rested_ns for each in own) / 1e9
    records = driven.sides[side]
    transactions = sum(record.count for record in records.transactions)
    part = driven.replace(
        transactions=records.transactions,
        statements=records.statements,
        rollbacks=records.rollbacks,
        mean_gap_s=records.mean_gap_s,
        duration_s=transactions / mean_rate,
        warmup_s=driven.warmup_s / len(driven.sides),
        connect_s=driven.connect_s / len(driven.sides),
        sides=None,
        slices=None,
        client=None,
    )
    phases = tuple(part if phase is driven else phase for phase in result.phases)
    result = replace(result, phases=phases)
    return SideResult(
        result,
        driven.name,
        trimmed_s=transactions / trimmed_rate,
        slices=len(own),
        round_s=driven.duration_s,
        rested_share=rested_s / slices_s,
    )


def loads_by_side(
    result: LoadResult, sides: int, base: int, timed: Collection[str]
) -> list[SideResult]:
    """Return the results of sides that loaded, where the phases ``timed`` are the measured part.

    The begin and the end of the statement, such as its commit, do not belong to a slice and count
    whole. Raise TrialFailed where not all of them had rows.
    """
    phases = [phase for phase in result.phases if isinstance(phase, PhaseResult)]
    loads = {phase.side: phase for phase in phases if phase.slices is not None}
    slices = sorted(
        (each for load in loads.values() for each in load.slices or ()),
        key=lambda each: each.from_ns,
    )
    groups = _groups(slices, sides)
    if not groups:
        raise TrialFailed("there are too few rows for slices", hint="more rows, or --interleaved")
    rates = _trimmed_rates(groups, sides, base)
    round_s = sum(
        phase.round_s or 0.0 for phase in phases if phase.side == 0 and phase.name in timed
    )
    return [
        _side_of_load(
            replace(
                result, phases=tuple(each for each in phases if each.side == side), client=None
            ),
            loads[side], rates[side], round_s,
        )
        for side in range(sides)
    ]  # fmt: skip


def _side_of_load(
    result: LoadResult, load: PhaseResult, trimmed_rate: float, round_s: float
) -> SideResult:
    own = load.slices or ()
    besides_s = load.duration_s - sum(map(_seconds, own))
    rows = sum(each.transactions for each in own)
    return SideResult(result, load.name, besides_s + rows / trimmed_rate, len(own), round_s)


def _groups(slices: Sequence[Slice], sides: int) -> list[Sequence[Slice]]:
    """Return the groups in which each side completed transactions."""
    size = 2 * sides
    groups = [slices[first : first + size] for first in range(0, len(slices), size)]
    return [group for group in groups if all(each.transactions for each in group)]


def _trimmed_rates(groups: Sequence[Sequence[Slice]], sides: int, base: int) -> list[float]:
    """Return the transactions a second of each side."""
    logs = [[_log_rate(group, side) for side in range(sides)] for group in groups]
    base_rate = math.exp(trimmed_mean([each[base] for each in logs]))
    return [
        base_rate * math.exp(trimmed_mean([each[side] - each[base] for each in logs]))
        for side in range(sides)
    ]


def _log_rate(group: Sequence[Slice], side: int) -> float:
    own = [each for each in group if each.side == side]
    return math.log(sum(each.transactions for each in own) / sum(map(_seconds, own)))


def _seconds(one: Slice) -> float:
    return (one.until_ns - one.from_ns) / 1e9


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean of the values without a fifth at each end; there must be one at least."""
    cut = int(_TRIMMED * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return math.fsum(kept) / len(kept)
