"""The observations of a server in one attempt, as typed values, with the work that was done.

Any part may be missing, because a kernel, a right, a tool or a server lacks it: it is None. Values
are sums between the beginning and the end of the measured part, in seconds and bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millrace.model import observations
from millrace.store.records import StoredAttempt

Noun = Literal["transaction", "row"]
Loop = Literal["closed", "open", "load"]

US_PER_S = 1e6

# Kinds of threads that serve clients: one for a connection, or one of a pool.
FOREGROUND = ("connection", "pool")
# Those of millrace's own sessions in the server.
OBSERVER = "observer"


def figure_of(record: object | None, name: str) -> Any:
    """Return a figure of a record by name; None without a record."""
    return None if record is None else getattr(record, name)


@dataclass(frozen=True)
class Work:
    """The work of an attempt's clients, by their own clock.

    ``operations`` are transactions that succeeded, or rows that were loaded, in ``duration_s``.
    ``elapsed_s`` passed meanwhile: longer where clients of other servers took turns with them.
    ``latency_s`` is the mean of an operation, None where it is not known; ``gap_s`` a client's mean
    time from an answer to its next request (None in an open loop). ``client_cpu_s`` is CPU time of
    the load generator. ``failed`` is the fraction of the operations tried that ended in an error.
    """

    noun: Noun
    loop: Loop
    clients: int
    operations: float
    duration_s: float
    elapsed_s: float
    latency_s: float | None
    gap_s: float | None
    client_cpu_s: float | None
    failed: float

    @property
    def client_cpu_us(self) -> float | None:
        """Return CPU time of the load generator in one operation, in µs."""
        return None if self.client_cpu_s is None else US_PER_S * self.client_cpu_s / self.operations


@dataclass(frozen=True)
class Place:
    """The place where a thread was blocked; its ``stack`` begins with the outermost function."""

    state_class: str
    call: str | None
    target: str | None
    stack: str | None


@dataclass(frozen=True)
class ForegroundStates:
    """The sampled states of the ``n_threads`` of the foreground.

    ``counts`` are by the document's classes, of all ``samples``, corrected for the classes that the
    scheduler's events cover. Waits for a lock while another thread of the server wrote its log
    through to the disk (``during_sync``) count as ``log_flush``. ``places`` are the same but for
    those running and waiting for clients.
    """

    n_threads: int
    samples: int
    counts: Mapping[str, float]
    places: Mapping[Place, float]


@dataclass(frozen=True)
class StatementStates:
    """The states of threads during each statement of their clients, as ``ForegroundStates``.

    ``samples`` counts those with a known statement or none under way. ``scheduled`` counts the
    scheduler's events that show a statement's thread on a CPU, and ready without one.
    """

    samples: int
    counts: Mapping[str, Mapping[str, float]]
    scheduled: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Profile:
    """CPU samples over all ``runs``: ``stacks`` are ``KIND;module`symbol;...``, the root first."""

    event: str
    call_graph: str
    with_kernel: bool | None
    samples: int
    lost: int
    runs: int
    stacks: Mapping[str, int]


@dataclass(frozen=True)
class Observed:
    """One attempt: the work of its clients, and the observations of the server meanwhile.

    ``background`` are the threads that serve no client, by their kind. ``pooled`` says that threads
    are shared by the clients, so that one that waits may have nothing to do. ``grown`` are the
    server's counters that grew, by its own names, ``counters`` by neutral ones. ``has_waits`` says
    whether the server measured its waits.
    """

    work: Work
    window_s: float | None
    pooled: bool
    process: observations.Usage | None
    foreground: observations.Usage | None
    background: Mapping[str, observations.Usage]
    states: ForegroundStates | None
    statements: StatementStates | None
    disk: observations.Disk | None
    grown: Mapping[str, float] | None
    counters: observations.Counters | None
    has_waits: bool
    waits: Sequence[observations.TimedEvent]
    digests: Sequence[observations.Digest]
    stages: Sequence[observations.TimedEvent]
    plans: Mapping[str, observations.QueryPlan]
    host: observations.HostActivity
    profile: Profile | None
    missing: tuple[observations.Missing, ...]

    @property
    def operations(self) -> float:
        """Return operations in the collectors' window, which is about that of the clients."""
        if self.window_s is None:
            return self.work.operations
        return self.work.operations * self.window_s / self.work.elapsed_s

    @property
    def cycle_us(self) -> float:
        """Return the time from one operation of a client to its next, in µs."""
        return US_PER_S * self.work.clients * self.work.duration_s / self.work.operations

    def counted(self, name: str) -> float | None:
        """Return the growth of one of ``Counters``; None where the server lacks it."""
        found = figure_of(self.counters, name)
        return None if found is None else float(found.value)

    def per_operation(self, amount: float) -> float:
        """Return an amount of the window, of one operation, in the amount's unit."""
        return amount / self.operations

    def sampled_us(self, count: float) -> float:
        """Return the time of an operation that the samples share out, in µs."""
        assert self.states is not None
        threads_us = US_PER_S * self.states.n_threads * self.work.elapsed_s / self.work.operations
        return threads_us * count / self.states.samples

    @property
    def others_turn_us(self) -> float:
        """Return the time of an operation in which clients of other servers had their turn."""
        others_s = self.work.elapsed_s - self.work.duration_s
        return US_PER_S * self.work.clients * others_s / self.work.operations

    def us(self, seconds: float) -> float:
        """Return seconds of the window, as µs of one operation."""
        return US_PER_S * seconds / self.operations


@dataclass(frozen=True)
class ObservedTrial:
    """A finished trial with its observations; ``block`` counts from 0."""

    trial_id: str
    block: int
    attempt: StoredAttempt
    observed: Observed
