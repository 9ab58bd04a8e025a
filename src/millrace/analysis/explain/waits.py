"""Compare the servers' own instruments: waits, statements by digest, stages.

Seconds and counts are means over the trials; times of an operation are in µs. Which waits the
Performance Schema measures depends on the version and on its settings, and each costs time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.explain.observations import US_PER_S, Observed, ObservedTrial
from millrace.analysis.explain.statements import normalised
from millrace.analysis.explain.time_breakdown import TimeBreakdown
from millrace.model.observations import DIGEST_COUNTS, Digest, TimedEvent
from millrace.stats.mean import complete_sum

LARGEST = 10

# Waits of the threads that serve clients. A wait for a row of a table includes all work of
# the engine; those for sockets are for clients.
_FOREGROUND_WAITS = (
    "wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/sxlock/", "wait/synch/prlock/",
    "wait/io/file/", "wait/lock/",
)  # fmt: skip
_CONDITIONS = "wait/synch/cond/"
# Of conditions, most are what background threads sleep on; these are what sessions wait for.
_OF_SESSIONS = (
    "cond_done", "cond_commit", "commit_cond", "cond_wait_status", "cond_wait_commit",
    "cond_group_commit", "cond_prepare_ordered", "cond_queue_busy", "cond_prep_xids",
    "thr_var::suspend", "thread_var::suspend", "wait_for_commit",
)  # fmt: skip


@dataclass(frozen=True)
class Amount:
    """The number and seconds of a wait in a trial, on average, and its µs in an operation."""

    count: float
    seconds: float
    us: float


@dataclass(frozen=True)
class WaitComparison:
    """A wait, or a stage, in A and in B; None where a side did not have it."""

    name: str
    a: Amount | None
    b: Amount | None


@dataclass(frozen=True)
class Coverage:
    """The share of the blocked time that the server's own instruments cover.

    ``waits_us`` are their waits, ``blocked_us`` is the blocked time of the breakdown,
    ``spinning_us`` the CPU time in loops that wait for a lock (None without a profile), all of one
    operation. The servers' timers also run while a thread is ready and has no CPU, which is
    ``queue_us`` in all (None where nobody measured it), and some waits enclose others.
    """

    waits_us: float
    blocked_us: float
    spinning_us: float | None
    queue_us: float | None

    @property
    def share(self) -> float | None:
        """Return instrumented waits / time blocked or spinning.

        Above 1 the ratio does not measure coverage: the instruments timed more than threads were
        blocked. None where threads were never blocked.
        """
        whole = self.blocked_us + (self.spinning_us or 0.0)
        return self.waits_us / whole if whole > 0 else None


@dataclass(frozen=True)
class DigestSide:
    """A statement as the server sums it up, of one execution; None where it is not known."""

    per_operation: float
    us: float
    lock_us: float | None
    cpu_us: float | None
    rows_examined: float | None
    rows_sent: float | None
    rows_affected: float | None
    tmp_tables: float | None
    tmp_disk_tables: float | None
    no_index_used: float | None
    sort_rows: float | None
    errors: float | None


@dataclass(frozen=True)
class DigestComparison:
    """A statement without its values, in A and in B."""

    text: str
    a: DigestSide | None
    b: DigestSide | None


def compare_waits(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[WaitComparison, ...]:
    """Return the largest waits of each side, in seconds, those of both in one order."""
    return _compare(_amounts(a, _waits), _amounts(b, _waits))


def compare_stages(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[WaitComparison, ...]:
    """Return the largest stages of each side."""
    return _compare(_amounts(a, _stages), _amounts(b, _stages))


def compare_digests(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial], *, tables: Sequence[str] = ()
) -> tuple[DigestComparison, ...]:
    """Return the statements that took each server longest, matched by their text without values."""
    sides = [_digests(trials, tables) for trials in (a, b)]
    wanted = dict.fromkeys(
        text
        for side in sides
        for text in sorted(side, key=lambda text: -_cost(side[text][1]))[:LARGEST]
    )
    found = []
    for key in wanted:
        of_a, of_b = (side.get(key) for side in sides)
        known = of_a or of_b
        assert known is not None
        found.append(DigestComparison(known[0], of_a and of_a[1], of_b and of_b[1]))
    return tuple(
        sorted(found, key=lambda row: -max(_cost(side) for side in (row.a, row.b) if side))
    )


def coverage(
    trials: Sequence[ObservedTrial], breakdown: TimeBreakdown, *, spinning_us: float | None
) -> Coverage | None:
    """Return the coverage of the instrumented waits, where all figures are known."""
    blocked_us = breakdown.blocked_us()
    measured = [trial.observed for trial in trials if trial.observed.has_waits]
    if blocked_us is None or not measured:
        return None
    waits_us = [
        observed.us(math.fsum(e.wait_s for e in observed.waits if is_of_sessions(e.name)))
        for observed in measured
    ]
    queue = breakdown.part("runnable")
    return Coverage(
        waits_us=math.fsum(waits_us) / len(waits_us),
        blocked_us=blocked_us,
        spinning_us=spinning_us,
        queue_us=None if queue is None else queue.us.mean,
    )


def is_of_sessions(name: str) -> bool:
    """Return whether a wait delays statements, unlike the sleep of a background thread."""
    if name.startswith(_CONDITIONS):
        return any(known in name.lower() for known in _OF_SESSIONS)
    return name.startswith(_FOREGROUND_WAITS)


def _waits(observed: Observed) -> Sequence[TimedEvent] | None:
    return observed.waits if observed.has_waits else None


def _stages(observed: Observed) -> Sequence[TimedEvent] | None:
    return observed.stages or None


def _amounts(
    trials: Sequence[ObservedTrial], events: Callable[[Observed], Sequence[TimedEvent] | None]
) -> dict[str, Amount]:
    recorded = [
        (trial.observed, found) for trial in trials if (found := events(trial.observed)) is not None
    ]
    operations = math.fsum(observed.operations for observed, _ in recorded)
    sums: dict[str, list[float]] = {}
    for _, found in recorded:
        for event in found:
            amount = sums.setdefault(event.name, [0.0, 0.0])
            amount[0] += event.count
            amount[1] += event.wait_s
    return {
        name: Amount(
            count / len(recorded), seconds / len(recorded), US_PER_S * seconds / operations
        )
        for name, (count, seconds) in sums.items()
    }


def _compare(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> tuple[WaitComparison, ...]:
    wanted = dict.fromkeys(
        name
        for side in (a, b)
        for name in sorted(side, key=lambda name: -side[name].seconds)[:LARGEST]
    )
    rows = [WaitComparison(name, a.get(name), b.get(name)) for name in wanted]
    return tuple(
        sorted(rows, key=lambda row: -max(side.seconds for side in (row.a, row.b) if side))
    )


def _digests(
    trials: Sequence[ObservedTrial], tables: Sequence[str]
) -> dict[str, tuple[str, DigestSide]]:
    """Return the server's text and means over the trials, by text without values."""
    texts: dict[str, str] = {}
    by_text: dict[str, list[tuple[Observed, Digest]]] = {}
    for trial in trials:
        for digest in trial.observed.digests:
            if digest.text and digest.count:
                key = normalised(digest.text, tables)
                texts.setdefault(key, digest.text)
                by_text.setdefault(key, []).append((trial.observed, digest))
    asked = [trial for trial in trials if trial.observed.digests]
    return {key: (texts[key], _digest(found, len(asked))) for key, found in by_text.items()}


def _digest(found: Sequence[tuple[Observed, Digest]], trials: int) -> DigestSide:
    executions = sum(digest.count or 0 for _, digest in found)

    def of_execution(name: str) -> float | None:
        total = complete_sum(getattr(digest, name) for _, digest in found)
        return None if total is None else total / executions

    def us(name: str) -> float | None:
        seconds = of_execution(name)
        return None if seconds is None else US_PER_S * seconds

    return DigestSide(
        per_operation=sum(o.per_operation(digest.count or 0) for o, digest in found) / trials,
        us=us("wait_s") or 0.0,
        lock_us=us("lock_s"),
        cpu_us=us("cpu_s"),
        **{name: of_execution(name) for name in DIGEST_COUNTS},
    )


def _cost(side: DigestSide) -> float:
    return side.per_operation * side.us
