"""Where the time of an operation went: parts that are each measured, and what is left unaccounted.

An operation of one client takes its latency and then, until the client asks again, a gap: together
a cycle, clients x time / operations. The threads that serve the clients spend just as long on it.
Of that, the kernel's clocks tell how long they were on a CPU, and how long they were ready and had
none. Samples of what they waited for tell the rest: the share of a state in the samples, times the
cycle. The time in which they waited for their client is the gap and, beyond it, what the wire and
the client itself took while the client waited for its answer: that is the client's part.

No part is what the others leave. Two clocks of two processes and samples have to meet, and by how
much they do not is ``unaccounted``: latency less all parts.

Parts that were sampled have a chance of their own (see ``stats.mean``): k of n samples are taken
for independent draws at least.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from millrace.analysis.explain.observations import US_PER_S, Loop, Noun, Observed, ObservedTrial
from millrace.stats import MeanEstimate, holm_marks, mean_estimate

ALPHA = 0.05
_FAILED_MATTERS = 0.001  # of the operations tried

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
# What threads of a pool do when they have nothing to do.
_IDLE_OF_POOLS: frozenset[PartKey] = frozenset(("lock", "sleep", "other", "client_wire"))


@dataclass(frozen=True)
class Value:
    """A time in µs per operation; ``error_us`` is its standard error by counting alone, and
    ``share`` that of the samples, 0 both for what a clock told."""

    us: float
    error_us: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class TrialAccount:
    """The account of one trial, in µs per operation.

    ``parts`` lacks what was not measured. ``sampled_us`` is the time that ``samples`` shared out
    to those parts that were sampled.
    """

    block: int
    latency_us: float
    parts: Mapping[PartKey, Value]
    sampled_us: float = 0.0
    samples: int = 0

    def left(self, parts: Sequence[PartKey]) -> Value:
        """What ``parts`` do not tell of the latency; a sample is in one part or in none of them, so
        that the error is one of the share of all in sum."""
        told_us = math.fsum(self.parts[key].us for key in parts)
        left = self.latency_us - told_us
        if not self.samples:
            return Value(left)
        share = math.fsum(self.parts[key].share for key in parts)
        return Value(left, self.sampled_us * _share_error(share, self.samples))


@dataclass(frozen=True)
class Part:
    """One part of an account: its mean over the trials, in µs per operation."""

    key: PartKey
    title: str
    us: MeanEstimate


@dataclass(frozen=True)
class Account:
    """The account of a treatment over its ``trials``: means over them, µs per operation.

    ``latency`` is the sum of ``parts`` and ``unaccounted``. ``unknown`` are the titles of parts
    that were not measured, which are in ``unaccounted`` then. ``cycle`` and ``gap`` are the
    clients' (no gap in an open loop); ``waiting_for_client`` is how long threads waited for their
    client, the gap with it. ``client_cpu`` is the load generator's own CPU time, a fact beside the
    account, as are ``background`` CPU by kind of thread, and ``notes``.
    """

    noun: Noun
    loop: Loop
    clients: int
    trials: tuple[TrialAccount, ...]
    latency: MeanEstimate
    parts: tuple[Part, ...]
    unaccounted: Part
    unknown: tuple[str, ...]
    cycle: MeanEstimate
    gap: MeanEstimate | None
    waiting_for_client: MeanEstimate | None
    client_cpu: MeanEstimate | None
    background: Mapping[str, MeanEstimate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def part(self, key: PartKey) -> Part | None:
        """The part of that key; None where it was not measured."""
        return next((part for part in self.parts if part.key == key), None)

    def blocked_us(self) -> float | None:
        """How long threads were blocked by anything but their clients; None where any of it is not
        known."""
        blocked = [part.us.mean for part in self.parts if part.key in _BLOCKED]
        return math.fsum(blocked) if len(blocked) == len(_BLOCKED) else None


@dataclass(frozen=True)
class DifferenceLine:
    """One part of B less the same of A, paired by block, in µs per operation.

    ``adjusted_p`` is Holm's over all parts that were tested, None where there was nothing to test;
    ``significant`` parts are there although so many were looked at. What is unaccounted is no
    cause, and never significant. ``a`` and ``b`` are the sides themselves, means over the same
    blocks.
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


@dataclass(frozen=True)
class AccountDifferences:
    """Two accounts, B less A, over the ``blocks`` in which both have one: largest part first.

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
        """The latencies of A and B over the blocks that have both: the sums of all parts."""
        lines = (*self.lines, self.unaccounted)
        return sum(line.a_us for line in lines), sum(line.b_us for line in lines)

    @property
    def left_shares(self) -> tuple[float, float]:
        """What is unaccounted of the latency of A and of B, as a fraction with its sign."""
        left = (self.unaccounted.a_us, self.unaccounted.b_us)
        pairs = zip(left, self.latencies_us, strict=True)
        of_a, of_b = (us / whole if whole else 0.0 for us, whole in pairs)
        return of_a, of_b


def account(trials: Sequence[ObservedTrial], *, confidence: float = 0.95) -> Account | None:
    """The account of a treatment's trials; None where none measured a latency.

    All trials of an account have the same parts: those of which most were measured count, and where
    several sets are as large, the one that most trials have.
    """
    counted = accounted(trials)
    if not counted:
        return None
    accounts = [each for _, each in counted]
    seen = [trial.observed for trial, _ in counted]
    known = [key for key in PARTS if key in accounts[0].parts]

    def fact(values: Sequence[float | None]) -> MeanEstimate | None:
        there = [value for value in values if value is not None]
        return mean_estimate(there, confidence=confidence) if there else None

    latency, parts, left = summed(accounts, {key: PARTS[key] for key in known}, confidence)
    cycle = fact([o.cycle_us for o in seen])
    assert cycle is not None
    work = seen[0].work
    return Account(
        noun=work.noun,
        loop=work.loop,
        clients=work.clients,
        trials=tuple(accounts),
        latency=latency,
        parts=parts,
        unaccounted=left,
        unknown=tuple(title for key, title in PARTS.items() if key not in known),
        cycle=cycle,
        gap=fact([_us(o.work.gap_s) for o in seen]),
        waiting_for_client=fact([_waiting_us(o) for o in seen]),
        client_cpu=fact([o.work.client_cpu_us for o in seen]),
        background=_background(seen, confidence),
        notes=_notes(seen, len(trials) - len(counted)),
    )


def accounted(
    trials: Sequence[ObservedTrial],
) -> list[tuple[ObservedTrial, TrialAccount]]:
    """The trials that count, each with its account: all of the same parts."""
    found = [(t, told) for t in trials if (told := trial_account(t)) is not None]
    if not found:
        return []
    sets = Counter(frozenset(told.parts) for _, told in found)
    wanted = max(sets, key=lambda parts: (len(parts), sets[parts]))
    return [(trial, told) for trial, told in found if told.parts.keys() == wanted]


def trial_account(trial: ObservedTrial) -> TrialAccount | None:
    """The account of one trial, of what was measured; None without a latency."""
    observed = trial.observed
    latency_us = _us(observed.work.latency_s)
    if latency_us is None:
        return None
    parts = {**_clocked(observed), **_sampled(observed)}
    if observed.states is None:
        return TrialAccount(trial.block, latency_us, parts)
    samples = observed.states.samples
    return TrialAccount(trial.block, latency_us, parts, observed.sampled_us(samples), samples)


def part_of_state(state_class: str) -> PartKey | None:
    """The part that a class of the sampled states is in; None for those that clocks tell of."""
    return next((key for key, classes in STATES_OF.items() if state_class in classes), None)


def summed(
    trials: Sequence[TrialAccount], titles: Mapping[PartKey, str], confidence: float
) -> tuple[MeanEstimate, tuple[Part, ...], Part]:
    """Means over trials: the latency, the parts that have ``titles``, and what these leave."""

    def mean(values: Sequence[Value]) -> MeanEstimate:
        return _mean(values, confidence)

    return (
        mean_estimate([trial.latency_us for trial in trials], confidence=confidence),
        tuple(Part(k, title, mean([t.parts[k] for t in trials])) for k, title in titles.items()),
        Part(UNACCOUNTED, UNACCOUNTED, mean([trial.left(list(titles)) for trial in trials])),
    )


def differences(
    a: Account, b: Account, *, confidence: float = 0.95, alpha: float = ALPHA
) -> AccountDifferences | None:
    """What is different, B less A; None where no block has both."""
    found = compared(a.trials, b.trials, PARTS, confidence=confidence)
    return None if found is None else replace(found, lines=marked(found.lines, alpha))


def compared(
    a: Sequence[TrialAccount],
    b: Sequence[TrialAccount],
    titles: Mapping[PartKey, str],
    *,
    confidence: float = 0.95,
) -> AccountDifferences | None:
    """The differences of the parts that have ``titles``, of which no line is marked yet; None where
    no block has both."""
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
            difference=_mean([_less(other, one) for one, other in of], confidence),
            adjusted_p=None,
            significant=False,
            a=_mean([one for one, _ in of], confidence),
            b=_mean([other for _, other in of], confidence),
        )

    def latency(us: Sequence[float]) -> MeanEstimate:
        return mean_estimate(us, confidence=confidence)

    lines = [line(key, [(one.parts[key], other.parts[key]) for one, other in pairs])
             for key in known]  # fmt: skip
    left = [(one.left(known), other.left(known)) for one, other in pairs]
    return AccountDifferences(
        blocks=tuple(one.block for one, _ in pairs),
        latency=latency([other.latency_us - one.latency_us for one, other in pairs]),
        lines=tuple(sorted(lines, key=lambda each: -abs(each.difference.mean))),
        unaccounted=line(UNACCOUNTED, left),
        unknown=tuple(title for key, title in titles.items() if key not in known),
        a_latency=latency([one.latency_us for one, _ in pairs]),
        b_latency=latency([other.latency_us for _, other in pairs]),
    )


def _clocked(observed: Observed) -> dict[PartKey, Value]:
    """What the kernel's clocks tell of the threads that serve clients."""
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
    """What samples tell, and of the threads' waits for their clients what was not the gap."""
    if observed.states is None:
        return {}
    parts = {key: _state(observed, *classes) for key, classes in STATES_OF.items()}
    if observed.work.gap_s is not None:
        waited = _state(observed, "network")
        gap_us = US_PER_S * observed.work.gap_s
        parts["client_wire"] = replace(waited, us=waited.us - gap_us)
    idle = _IDLE_OF_POOLS if observed.pooled else frozenset[PartKey]()
    return {key: value for key, value in parts.items() if key not in idle}


def _state(observed: Observed, *classes: str) -> Value:
    """The share of the samples in ``classes``, as time of an operation."""
    states = observed.states
    assert states is not None
    count = sum(states.counts.get(name, 0) for name in classes)
    return sampled_value(count, states.samples, observed.sampled_us(states.samples))


def sampled_value(count: float, samples: int, all_us: float) -> Value:
    """So many of the samples, as time of the ``all_us`` that all of them stand for."""
    share = count / samples
    return Value(share * all_us, all_us * _share_error(share, samples), share)


def _share_error(share: float, samples: int) -> float:
    within = min(max(share, 0.0), 1.0)  # sums of shares are rounded
    return math.sqrt(within * (1 - within) / samples)


def _waiting_us(observed: Observed) -> float | None:
    if observed.states is None or observed.pooled:
        return None
    return _state(observed, "network").us


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else US_PER_S * seconds


def _background(seen: Sequence[Observed], confidence: float) -> dict[str, MeanEstimate]:
    """CPU time by kind of thread, those that used most first; a kind that a trial has no thread of
    used none in it, and one whose time is not known in some trial is left out."""
    by_kind: dict[str, list[float | None]] = {}
    told = [observed for observed in seen if observed.background]
    for number, observed in enumerate(told):
        for kind, usage in observed.background.items():
            values = by_kind.setdefault(kind, [0.0] * len(told))
            values[number] = None if usage.cpu_s is None else observed.us(usage.cpu_s)
    means = {
        kind: mean_estimate(known, confidence=confidence)
        for kind, values in by_kind.items()
        if len(known := [value for value in values if value is not None]) == len(values)
    }
    return dict(sorted(means.items(), key=lambda item: -item[1].mean))


def _notes(seen: Sequence[Observed], left_out: int) -> tuple[str, ...]:
    work = seen[0].work
    notes = []
    if work.loop == "open":
        notes.append(
            "in an open loop, threads that wait for their client also wait for the next request to "
            "come, which nobody tells apart: the client's part and the wire are unaccounted"
        )
    if any(observed.pooled for observed in seen):
        notes.append(
            "clients share a pool of threads; a thread that has nothing to do waits as for a lock, "
            "so that waits for locks and for clients, and sleep, are unaccounted"
        )
    failed = max(observed.work.failed for observed in seen)
    if failed > _FAILED_MATTERS:
        notes.append(
            f"up to {failed * 100:.2g} % of the transactions of a trial ended in an error; what "
            f"they took is in the parts, not in the latency"
        )
    if work.loop == "load":
        notes.append("the client's CPU time is that of its whole run, with all that it did besides")
    if left_out:
        trials = "a trial" if left_out == 1 else f"{left_out} trials"
        notes.append(f"{trials} of which less was observed than of others left out")
    return tuple(notes)


def _pairs(
    a: Sequence[TrialAccount], b: Sequence[TrialAccount]
) -> list[tuple[TrialAccount, TrialAccount]]:
    of_b = {trial.block: trial for trial in b}
    return [(trial, of_b[trial.block]) for trial in a if trial.block in of_b]


def _less(b: Value, a: Value) -> Value:
    return Value(b.us - a.us, math.hypot(a.error_us, b.error_us))


def _mean(values: Sequence[Value], confidence: float) -> MeanEstimate:
    counting = math.hypot(*(value.error_us for value in values)) / len(values)
    return mean_estimate(
        [value.us for value in values], confidence=confidence, least_error=counting
    )


def marked(lines: Sequence[DifferenceLine], alpha: float = ALPHA) -> tuple[DifferenceLine, ...]:
    """The lines with Holm's p-values. A part that neither side ever saw asks no question."""
    marks = holm_marks(
        [line.difference.p_value if line.a_us or line.b_us else None for line in lines], alpha
    )
    return tuple(
        replace(line, adjusted_p=mark.adjusted_p, significant=mark.significant)
        for line, mark in zip(lines, marks, strict=True)
    )
