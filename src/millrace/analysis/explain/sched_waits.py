"""Correct sampled waits by the scheduler's own events.

Looks at threads find short waits too often or too seldom where CPUs are few (see
``collect.sched_waits``). Events of the scheduler tell how long threads slept until another thread
of the server woke them, or somebody outside of it: that is waiting for a lock, and for a client;
and how long they were not blocked at all. Where they tell enough, what was sampled is made to stand
for the time that they tell. They do where such waits are short beside the windows in which events
were taken and many, and where there are few windows of which nothing is known. Long waits are
sampled well.

A wait for a lock may have a limit, and is ended by the kernel when that is over, as all sleep is
that has one: such time is shared out to locks and mere sleep as it was sampled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from millrace.model.observations import SampledThread, SchedEvents, ScheduledThread

_RUNNING = "running"
# What a thread waited for, by how it slept and who woke it.
_FOR_LOCKS, _TO_AN_END = ("S", "own"), ("S", "kernel")
_CLASSES: Mapping[tuple[str, str], str] = {_FOR_LOCKS: "lock", ("S", "other"): "network"}

_FEWEST = 30  # waits
_FEWEST_WINDOWS = 3  # in which they ended
_SHORT = 0.05  # of a window
_UNKNOWN = 0.1  # of the waits' time may the time be of which nothing is known


def factors(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return factors for the sampled seconds of ``threads``, by class of states, if known."""
    shares = _shares(threads, events)
    all_s = _seconds(threads)
    sampled = {name: _seconds(threads, name) for name in shares}
    found = {name: share * all_s / sampled[name] for name, share in shares.items() if sampled[name]}
    return found if found.keys() - {_RUNNING} else {}


def _shares(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return the shares of time that threads waited, by class, and that they ran."""
    tids = {thread.tid for thread in threads}
    listened = [
        thread
        for thread in events.threads or ()
        if thread.tid in tids and thread.blocked_s is not None  # what was kept before says less
    ]
    if not listened or sum(thread.windows for thread in listened) < _FEWEST_WINDOWS:
        return {}
    assert events.seconds is not None  # where there are threads
    assert events.windows is not None
    unknown_s = math.fsum(thread.unknown_s or 0.0 for thread in listened)
    known_s = events.seconds * len(listened) - unknown_s
    short_s = _SHORT * events.seconds / events.windows
    locks_s, sleep_s = _seconds(threads, "lock"), _seconds(threads, "sleep")
    count, seconds = _sums(listened, locks_s / (locks_s + sleep_s) if locks_s else 0.0)
    found = {
        name: seconds[kind] / known_s
        for kind, name in _CLASSES.items()
        if count[kind] >= _FEWEST
        and seconds[kind] <= short_s * count[kind]
        and unknown_s <= _UNKNOWN * seconds[kind]
    }
    blocked_s = math.fsum(thread.blocked_s or 0.0 for thread in listened)
    return {**found, _RUNNING: (known_s - blocked_s) / known_s} if found else {}


def _sums(
    listened: Sequence[ScheduledThread], locks: float
) -> tuple[Mapping[tuple[str, str], float], Mapping[tuple[str, str], float]]:
    """Return number and seconds of waits; ``locks`` of the limited sleep was for locks."""
    count: defaultdict[tuple[str, str], float] = defaultdict(float)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for thread in listened:
        for wait in thread.waits or ():
            kind = wait.state, wait.woken_by
            count[kind] += wait.count
            seconds[kind] += wait.seconds
    count[_FOR_LOCKS] += locks * count[_TO_AN_END]
    seconds[_FOR_LOCKS] += locks * seconds[_TO_AN_END]
    return count, seconds


def _seconds(threads: Sequence[SampledThread], name: str | None = None) -> float:
    """Sum the sampled time of threads in the states of a class, or in all, in s."""
    return math.fsum(
        state.weight
        for thread in threads
        for state in thread.states
        if name is None or state.state_class == name
    )
