"""The records of ``time_breakdown``: parts of an operation's time, and their differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.explain.observations import Loop, Noun
from millrace.stats.mean import MeanEstimate

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
class Part:
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
    ``significant`` parts differ after that correction. The unaccounted time is no cause, and never
    significant. ``a`` and ``b`` are the sides themselves, means over the same
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
