"""Break down the time of an operation into parts that are each measured, and a remainder.

An operation of one client takes its latency and then, until the client's next request, a gap:
together a cycle, clients x time / operations. The threads that serve the clients spend as long on
it.

CPU and run queue come from the kernel's clocks, waits from samples (the share of a state in the
samples, times the cycle), latency and gap from the client's clock. The client's part is the time in
which threads waited for their client, less the gap, and less the turns of other servers' clients
where these took turns in slices. A thread that answered may be ready, without a CPU, while they do:
the difference between the time that the client lets it wait and the time that it waits belongs to
no operation, and is subtracted from that part. What these sources do not account for is
``unaccounted``: the latency less all parts. Sampled parts have an error of their own (see
``stats.mean``): k of n samples are taken for independent draws at least.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from millrace.analysis.explain.observations import US_PER_S, Loop, Noun, Observed, ObservedTrial
from millrace.quantities import counted
from millrace.stats.mean import MeanEstimate, mean_estimate
from millrace.stats.multiple_tests import holm_marks

PartKey = Literal[
    "cpu_user", "cpu_system", "on_cpu", "runnable", "running", "lock", "log_flush", "log_write",
    "fsync", "data_read", "data_write", "network_send", "sleep", "other", "client_wire",
    "unaccounted",
]  # fmt: skip
# In the order of tables: what ran, what waited, what was elsewhere.
PARTS: Mapping[PartKey, str] = {
    "cpu_user": "on CPU, user",
    "cpu_system": "on CPU, kernel",
    "runnable": "ready, but no CPU free",
    "lock": "waiting for a lock",
    "log_flush": "waiting for the log to be flushed",
    "log_write": "writing the log",
    "fsync": "flushing other files",
    "data_read": "reading data",
    "data_write": "writing data",
    "network_send": "sending",
    "sleep": "sleeping",
    "other": "other waits",
    "client_wire": "client and wire",
}
UNACCOUNTED: PartKey = "unaccounted"
# The classes of states that each part of the waits is made of.
STATES_OF: Mapping[PartKey, tuple[str, ...]] = {
    "lock": ("lock",),
    "log_flush": ("log_flush",),
    "log_write": ("log_write",),
    "fsync": ("fsync",),
    "data_read": ("data_read", "page_fault"),
    "data_write": ("data_write",),
    "network_send": ("network_send",),
    "sleep": ("sleep",),
    "other": ("other", "io_queue"),
}
_BLOCKED = STATES_OF.keys() - {"network_send"}


@dataclass(frozen=True)
class Value:
    """A time in µs per operation.

    ``error_us`` is its standard error by counting alone, and ``share`` that of the samples, both 0
    for what a clock measured.
    """

    us: float
    error_us: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class TrialBreakdown:
    """The time breakdown of one trial, in µs per operation.

    ``parts`` lacks parts that were not measured. ``sampled_us`` is the time that ``samples`` divide
    among the sampled parts.
    """

    block: int
    latency_us: float
    parts: Mapping[PartKey, Value]
    sampled_us: float = 0.0
    samples: int = 0

    def left(self, parts: Sequence[PartKey]) -> Value:
        """Return the unaccounted part of the latency; its error is that of all shares in sum."""
        left = self.latency_us - math.fsum(self.parts[key].us for key in parts)
        if not self.samples:
            return Value(left)
        share = math.fsum(self.parts[key].share for key in parts)
        return Value(left, self.sampled_us * share_error(share, self.samples))


@dataclass(frozen=True)
class TimePart:
    """One part of a breakdown: its mean over the trials, in µs per operation."""

    key: PartKey
    title: str
    us: MeanEstimate


@dataclass(frozen=True)
class TimeBreakdown:
    """The time breakdown of a treatment: means over its ``trials``, in µs per operation.

    ``latency`` is the sum of ``parts`` and ``unaccounted``. ``unknown`` are the titles of parts
    that were not measured, which are in ``unaccounted`` then. ``cycle`` and ``gap`` are the
    clients' (no gap in an open loop); ``waiting_for_client`` is how long threads waited for their
    client, the gap included. ``client_cpu`` is the load generator's own CPU time and ``background``
    CPU time by kind of thread: facts that are in no part. So are the ``notes``.
    """

    noun: Noun
    loop: Loop
    clients: int
    trials: tuple[TrialBreakdown, ...]
    latency: MeanEstimate
    parts: tuple[TimePart, ...]
    unaccounted: TimePart
    unknown: tuple[str, ...]
    cycle: MeanEstimate
    gap: MeanEstimate | None
    waiting_for_client: MeanEstimate | None
    client_cpu: MeanEstimate | None
    background: Mapping[str, MeanEstimate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def part(self, key: PartKey) -> TimePart | None:
        """Return the part with that key; None where it was not measured."""
        return next((part for part in self.parts if part.key == key), None)

    def blocked_us(self) -> float | None:
        """Return the time for which threads were blocked, but by their clients; None if unknown."""
        blocked = [part.us.mean for part in self.parts if part.key in _BLOCKED]
        return math.fsum(blocked) if len(blocked) == len(_BLOCKED) else None


@dataclass(frozen=True)
class DifferenceLine:
    """One part of B less the same of A, paired by block, in µs per operation.

    ``adjusted_p`` is Holm's over all parts that were tested, None where there was nothing to test;
    ``significant`` parts differ after that correction. The unaccounted time is not a cause, and
    never significant. ``a`` and ``b`` are the sides themselves, means over the same blocks.
    """

    key: PartKey
    title: str
    a_us: float
    b_us: float
    difference: MeanEstimate
    adjusted_p: float | None
    significant: bool
    a: MeanEstimate | None = None
    b: MeanEstimate | None = None

    @property
    def below_zero(self) -> tuple[bool, bool]:
        """Return whether the part of A and of B is below zero by more than chance: no time is."""
        is_a, is_b = (side is not None and side.high is not None and side.high < 0
                      for side in (self.a, self.b))  # fmt: skip
        return is_a, is_b


@dataclass(frozen=True)
class BreakdownDifference:
    """Two breakdowns, B less A, over the ``blocks`` in which both have one: largest part first.

    ``latency`` is the sum of ``lines`` and ``unaccounted``. Parts that only one side measured are
    in ``unaccounted``, and ``unknown`` has their titles. ``a_latency`` and ``b_latency`` are those
    of the sides themselves.
    """

    blocks: tuple[int, ...]
    latency: MeanEstimate
    lines: tuple[DifferenceLine, ...]
    unaccounted: DifferenceLine
    unknown: tuple[str, ...]
    a_latency: MeanEstimate | None = None
    b_latency: MeanEstimate | None = None

    @property
    def latencies_us(self) -> tuple[float, float]:
        """Return the latencies of A and B over the blocks that have both: the sums of all parts."""
        lines = (*self.lines, self.unaccounted)
        return sum(line.a_us for line in lines), sum(line.b_us for line in lines)

    @property
    def left_shares(self) -> tuple[float, float]:
        """Return the unaccounted share of the latency of A and of B, a fraction with its sign."""
        left = (self.unaccounted.a_us, self.unaccounted.b_us)
        pairs = zip(left, self.latencies_us, strict=True)
        of_a, of_b = (us / whole if whole else 0.0 for us, whole in pairs)
        return of_a, of_b


def share_error(share: float, samples: int) -> float:
    """Return the standard error of a share of independent samples."""
    within = min(max(share, 0.0), 1.0)  # sums of shares are rounded
    return math.sqrt(within * (1 - within) / samples)


ALPHA = 0.05
_FAILED_MATTERS = 0.001  # of the operations tried
_BEYOND_CHANCE = 2.0  # standard errors


# What threads of a pool do when they have nothing to do.
_IDLE_OF_POOLS: frozenset[PartKey] = frozenset(("lock", "sleep", "other", "client_wire"))


def time_breakdown(trials: Sequence[ObservedTrial]) -> TimeBreakdown | None:
    """Break down the time of a treatment's operations; None where no trial measured a latency.

    Only trials with the most measured parts count, and of several equally large sets of parts the
    one that most trials have.
    """
    counted = with_breakdowns(trials)
    if not counted:
        return None
    breakdowns = [each for _, each in counted]
    observed = [trial.observed for trial, _ in counted]
    known = [key for key in PARTS if key in breakdowns[0].parts]

    def fact(values: Sequence[float | None]) -> MeanEstimate | None:
        there = [value for value in values if value is not None]
        return mean_estimate(there) if there else None

    latency, parts, left = summed(breakdowns, {key: PARTS[key] for key in known})
    cycle = fact([each.cycle_us for each in observed])
    assert cycle is not None
    work = observed[0].work
    return TimeBreakdown(
        noun=work.noun,
        loop=work.loop,
        clients=work.clients,
        trials=tuple(breakdowns),
        latency=latency,
        parts=parts,
        unaccounted=left,
        unknown=tuple(title for key, title in PARTS.items() if key not in known),
        cycle=cycle,
        gap=fact([_us(each.work.gap_s) for each in observed]),
        waiting_for_client=fact([_waiting_us(each) for each in observed]),
        client_cpu=fact([each.work.client_cpu_us for each in observed]),
        background=_background(observed),
        notes=_notes(observed, len(trials) - len(counted)),
    )


def with_breakdowns(trials: Sequence[ObservedTrial]) -> list[tuple[ObservedTrial, TrialBreakdown]]:
    """Return the trials that count, each with its breakdown: all of the same parts."""
    found = [(trial, each) for trial in trials if (each := trial_breakdown(trial)) is not None]
    if not found:
        return []
    sets = Counter(frozenset(each.parts) for _, each in found)
    wanted = max(sets, key=lambda parts: (len(parts), sets[parts]))
    return [(trial, each) for trial, each in found if each.parts.keys() == wanted]


def trial_breakdown(trial: ObservedTrial) -> TrialBreakdown | None:
    """Break down the time of one trial's operations; None without a latency."""
    observed = trial.observed
    latency_us = _us(observed.work.latency_s)
    if latency_us is None:
        return None
    parts = _without_others_turns(observed, {**_clocked(observed), **_sampled(observed)})
    if observed.states is None:
        return TrialBreakdown(trial.block, latency_us, parts)
    samples = observed.states.samples
    return TrialBreakdown(trial.block, latency_us, parts, observed.sampled_us(samples), samples)


def part_of_state(state_class: str) -> PartKey | None:
    """Return the part that a class of the sampled states is in; None for clocked parts."""
    return next((key for key, classes in STATES_OF.items() if state_class in classes), None)


def summed(
    trials: Sequence[TrialBreakdown], titles: Mapping[PartKey, str]
) -> tuple[MeanEstimate, tuple[TimePart, ...], TimePart]:
    """Return means over trials: the latency, the parts that have ``titles``, and the remainder."""
    return (
        mean_estimate([trial.latency_us for trial in trials]),
        tuple(
            TimePart(k, title, _mean([t.parts[k] for t in trials])) for k, title in titles.items()
        ),
        TimePart(UNACCOUNTED, UNACCOUNTED, _mean([trial.left(list(titles)) for trial in trials])),
    )


def breakdown_difference(a: TimeBreakdown, b: TimeBreakdown) -> BreakdownDifference | None:
    """Compare two time breakdowns, B less A; None where no block has both."""
    found = breakdown_difference_of(a.trials, b.trials, PARTS)
    return None if found is None else replace(found, lines=marked(found.lines))


def breakdown_difference_of(
    a: Sequence[TrialBreakdown], b: Sequence[TrialBreakdown], titles: Mapping[PartKey, str]
) -> BreakdownDifference | None:
    """Return the differences of the parts that have ``titles``, without marks, if any."""
    pairs = _pairs(a, b)
    if not pairs:
        return None
    known = [key for key in titles if all(key in each.parts for each in pairs[0])]

    def line(key: PartKey, of: Sequence[tuple[Value, Value]]) -> DifferenceLine:
        return DifferenceLine(
            key=key,
            title=titles.get(key, UNACCOUNTED),
            a_us=math.fsum(one.us for one, _ in of) / len(of),
            b_us=math.fsum(other.us for _, other in of) / len(of),
            difference=_mean([_less(other, one) for one, other in of]),
            adjusted_p=None,
            significant=False,
            a=_mean([one for one, _ in of]),
            b=_mean([other for _, other in of]),
        )

    lines = [line(key, [(one.parts[key], other.parts[key]) for one, other in pairs])
             for key in known]  # fmt: skip
    left = [(one.left(known), other.left(known)) for one, other in pairs]
    return BreakdownDifference(
        blocks=tuple(one.block for one, _ in pairs),
        latency=mean_estimate([other.latency_us - one.latency_us for one, other in pairs]),
        lines=tuple(sorted(lines, key=lambda each: -abs(each.difference.mean))),
        unaccounted=line(UNACCOUNTED, left),
        unknown=tuple(title for key, title in titles.items() if key not in known),
        a_latency=mean_estimate([one.latency_us for one, _ in pairs]),
        b_latency=mean_estimate([other.latency_us for _, other in pairs]),
    )


def _clocked(observed: Observed) -> dict[PartKey, Value]:
    used = observed.foreground
    if used is None:
        return {}
    clocks: dict[PartKey, float | None] = {
        "cpu_user": used.user_s,
        "cpu_system": used.system_s,
        "runnable": used.runnable_s,
    }
    return {key: Value(observed.us(s)) for key, s in clocks.items() if s is not None}


def _sampled(observed: Observed) -> dict[PartKey, Value]:
    """Return the parts that samples measure, and waits for clients beyond the gap."""
    if observed.states is None:
        return {}
    parts = {key: _state(observed, *classes) for key, classes in STATES_OF.items()}
    if observed.work.gap_s is not None:
        waited = _state(observed, "network")
        no_request_us = US_PER_S * observed.work.gap_s + observed.others_turn_us
        parts["client_wire"] = replace(waited, us=waited.us - no_request_us)
    idle = _IDLE_OF_POOLS if observed.pooled else frozenset[PartKey]()
    return {key: value for key, value in parts.items() if key not in idle}


def _without_others_turns(
    observed: Observed, parts: Mapping[PartKey, Value]
) -> Mapping[PartKey, Value]:
    """Return the parts without the time ready for a CPU while clients of other servers worked.

    On a busy host, a thread that sent its answer may get a CPU, to wait for the next request, only
    after their turn.
    """
    waited, ready = parts.get("client_wire"), parts.get("runnable")
    if waited is None or ready is None or not observed.others_turn_us:
        return parts
    outside_us = min(-waited.us, ready.us)
    if outside_us <= _BEYOND_CHANCE * waited.error_us:
        return parts
    return {
        **parts,
        "runnable": replace(ready, us=ready.us - outside_us, error_us=waited.error_us),
        "client_wire": replace(waited, us=waited.us + outside_us),
    }


def _state(observed: Observed, *classes: str) -> Value:
    """Return the share of the samples in ``classes``, as time of an operation."""
    states = observed.states
    assert states is not None
    count = sum(states.counts.get(name, 0) for name in classes)
    return sampled_value(count, states.samples, observed.sampled_us(states.samples))


def sampled_value(count: float, samples: int, all_us: float) -> Value:
    """Return this many of the samples as time, where all samples stand for ``all_us``."""
    share = count / samples
    return Value(share * all_us, all_us * share_error(share, samples), share)


def _waiting_us(observed: Observed) -> float | None:
    if observed.states is None or observed.pooled:
        return None
    return _state(observed, "network").us - observed.others_turn_us


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else US_PER_S * seconds


def _background(trials: Sequence[Observed]) -> dict[str, MeanEstimate]:
    """Return CPU time by kind of thread, the largest first; unknown kinds are left out."""
    by_kind: dict[str, list[float | None]] = {}
    known_trials = [observed for observed in trials if observed.background]
    for number, observed in enumerate(known_trials):
        for kind, usage in observed.background.items():
            values = by_kind.setdefault(kind, [0.0] * len(known_trials))
            values[number] = None if usage.cpu_s is None else observed.us(usage.cpu_s)
    means = {
        kind: mean_estimate(known)
        for kind, values in by_kind.items()
        if len(known := [value for value in values if value is not None]) == len(values)
    }
    return dict(sorted(means.items(), key=lambda item: -item[1].mean))


def _notes(trials: Sequence[Observed], left_out: int) -> tuple[str, ...]:
    work = trials[0].work
    notes = []
    if work.loop == "open":
        notes.append(
            "in an open loop, threads that wait for their client also wait for the next request to "
            "come, which nobody tells apart: the client's part and the wire are unaccounted"
        )
    if any(observed.pooled for observed in trials):
        notes.append(
            "clients share a pool of threads; a thread that has nothing to do waits as for a lock, "
            "so that waits for locks and for clients, and sleep, are unaccounted"
        )
    failed = max(observed.work.failed for observed in trials)
    if failed > _FAILED_MATTERS:
        notes.append(
            f"up to {failed * 100:.2g} % of the transactions of a trial ended in an error; what "
            f"they took is in the parts, not in the latency"
        )
    if work.loop == "load" and work.clients > 1:
        notes.append(
            f"where {work.clients} threads shared the work, one {work.noun} took its thread "
            f"{work.clients} times the time from each {work.noun} to the next"
        )
    if work.loop == "load":
        notes.append("the client's CPU time is that of its whole run, with all that it did besides")
    if left_out:
        notes.append(f"{counted(left_out, 'trial')} left out, with fewer observations than others")
    return tuple(notes)


def _pairs(
    a: Sequence[TrialBreakdown], b: Sequence[TrialBreakdown]
) -> list[tuple[TrialBreakdown, TrialBreakdown]]:
    of_b = {trial.block: trial for trial in b}
    return [(trial, of_b[trial.block]) for trial in a if trial.block in of_b]


def _less(b: Value, a: Value) -> Value:
    return Value(b.us - a.us, math.hypot(a.error_us, b.error_us))


def _mean(values: Sequence[Value]) -> MeanEstimate:
    counting = math.hypot(*(value.error_us for value in values)) / len(values)
    return mean_estimate([value.us for value in values], least_error=counting)


def marked(lines: Sequence[DifferenceLine]) -> tuple[DifferenceLine, ...]:
    """Return the lines with Holm's p-values. A part that neither side ever saw asks no question."""
    marks = holm_marks(
        [line.difference.p_value if line.a_us or line.b_us else None for line in lines], ALPHA
    )
    return tuple(
        replace(line, adjusted_p=mark.adjusted_p, significant=mark.significant)
        for line, mark in zip(lines, marks, strict=True)
    )
