"""Find the threads that served the clients, with their resources and waits.

A server has other sessions too, as those of background clients. So threads that waited for a
client's requests are taken, and then those that worked most, as many as there are clients; where
threads are pooled, all of the pool. Where fewer were found, nothing is said of any.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from millrace.analysis.explain.observations import (
    FOREGROUND,
    ForegroundStates,
    Place,
    StatementStates,
    Work,
)
from millrace.model.observations import Missing, Observations, ThreadUsage, Usage
from millrace.model.sampled_threads import CountedState, SampledThread, SchedEvents, ScheduledThread
from millrace.stats.mean import complete_sum

OTHER_SESSIONS = "other sessions"
_POOL = "pool"
_FLUSH = "log_flush"
_LEAST_OF_BUSIEST = 0.05  # of the CPU time of a replica's busiest applier
_NOT_BLOCKED = ("running", "network")
# Threads that are gone at the end, as one: a session that loads a table ends with its load, clients
# that are driven stay.
_ENDED = "ended"

_State = TypeVar("_State", bound=CountedState)


@dataclass(frozen=True)
class Served:
    """The threads of one attempt: those that served clients, and by their kind all others."""

    foreground: Usage | None
    background: Mapping[str, Usage]
    states: ForegroundStates | None
    missing: tuple[Missing, ...]


def served(document: Observations, work: Work, *, pooled: bool) -> Served:
    """Return who served the clients; ``pooled`` threads are shared by them."""
    sampled = () if document.states is None else document.states.threads or ()
    used = () if document.threads is None else document.threads.threads or ()
    kinds: tuple[str, ...] = (_POOL,) if pooled else FOREGROUND
    serving_kinds = (*kinds, _ENDED) if work.loop == "load" else kinds
    clients = None if pooled else work.clients
    serving, others = _split(used, sampled, serving_kinds, clients)
    serving_samples = _sampled(sampled, serving, kinds, clients)
    wanted = 1 if pooled else work.clients
    ended = any(thread.kind == _ENDED for thread in serving)  # as one, however many
    missing = []
    if used and not ended and len(serving) < wanted:
        missing.append(_too_few("threads", len(serving), work, pooled=pooled))
        serving, serving_samples = [], []
    elif sampled and len(serving_samples) < wanted:
        missing.append(_too_few("states", len(serving_samples), work, pooled=pooled))
        serving_samples = []
    return Served(
        foreground=usage(serving) if serving else None,
        background={kind: usage(of_kind) for kind, of_kind in _by_kind(others).items()},
        states=_states(serving_samples, clients, document.switches),
        missing=tuple(missing),
    )


def n_appliers(document: Observations) -> int:
    """Return how many threads of a replica applied changes, at least 1: they alone serve there.

    One that had next to no work does not count, as it would only seem to have waited.
    """
    sampled = () if document.states is None else document.states.threads or ()
    used = () if document.threads is None else document.threads.threads or ()
    ran = [thread.cpu_s or 0.0 for thread in used if thread.kind in FOREGROUND]
    if not ran:
        return max(sum(thread.kind in FOREGROUND for thread in sampled), 1)
    return sum(cpu_s >= _LEAST_OF_BUSIEST * max(ran) for cpu_s in ran)


def statements(observed: Observations) -> StatementStates | None:
    """Return the samples of threads by their clients' statements; None where these are unknown."""
    states, events = observed.states, observed.switches or SchedEvents()
    if states is None or states.statements is None:
        return None
    serving = [thread for thread in states.threads or () if thread.kind in FOREGROUND]
    factors = wait_factors(serving, events)
    samples, counted = _counted(states.statements.states or (), factors, flushes=True)
    if not counted:
        return None
    counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for state, name, count in counted:
        if state.statement is not None:
            counts[state.statement][name] += count
    scheduled = {each.statement: (each.on_cpu, each.ready) for each in events.statements or ()}
    return StatementStates(samples, {name: dict(of) for name, of in counts.items()}, scheduled)


def usage(threads: Sequence[ThreadUsage]) -> Usage:
    """Return the sum over ``threads``; None where one of them lacks a figure."""
    return Usage(
        **{
            name: complete_sum(getattr(thread, name) for thread in threads)
            for name in Usage.model_fields
        }
    )


def _too_few(observer: str, found: int, work: Work, *, pooled: bool) -> Missing:
    if pooled:
        what = "no thread of the pool that serves the clients could be identified"
    else:
        what = f"of the threads that serve the {work.clients} clients, only {found} were found"
    return Missing(observer=observer, what=f"{what}: their parts of the time breakdown are unknown")


def _split(
    used: Sequence[ThreadUsage],
    sampled: Sequence[SampledThread],
    kinds: Sequence[str],
    clients: int | None,
) -> tuple[list[ThreadUsage], list[ThreadUsage]]:
    """Return the threads of ``kinds`` that served ``clients`` (None: any), and all others."""
    busy = {
        thread.tid: sum(state.count for state in thread.states if state.state_class != "network")
        for thread in sampled
    }
    of_clients = {thread.tid for thread in sampled if thread.serves_client}
    by_work = sorted(
        (thread for thread in used if thread.kind in kinds),
        key=lambda thread: (
            thread.tid in of_clients, thread.cpu_s or 0.0, busy.get(thread.tid, 0)
        ),
        reverse=True,
    )  # fmt: skip
    serving = by_work[:clients]
    tids = {thread.tid for thread in serving}
    return serving, [thread for thread in used if thread.tid not in tids]


def _by_kind(threads: Iterable[ThreadUsage]) -> dict[str, list[ThreadUsage]]:
    found: dict[str, list[ThreadUsage]] = {}
    for thread in threads:
        kind = OTHER_SESSIONS if thread.kind in FOREGROUND else thread.kind
        found.setdefault(kind, []).append(thread)
    return found


def _sampled(
    sampled: Sequence[SampledThread],
    serving: Sequence[ThreadUsage],
    kinds: Sequence[str],
    clients: int | None,
) -> list[SampledThread]:
    if serving and all(thread.kind != _ENDED for thread in serving):
        tids = {thread.tid for thread in serving}
        return [thread for thread in sampled if thread.tid in tids]
    # Nobody counted what threads used, or they are gone: those that were sampled running most.
    of_kinds = [thread for thread in sampled if thread.kind in kinds]
    by_work = sorted(of_kinds, key=_running, reverse=True)
    return sorted(by_work, key=lambda thread: not thread.serves_client)[:clients]


def _running(thread: SampledThread) -> int:
    return sum(int(each.count) for each in thread.states if each.state_class == "running")


def _states(
    threads: Sequence[SampledThread], clients: int | None, events: SchedEvents | None
) -> ForegroundStates | None:
    """Return the samples of the threads, each weighted by the time it stands for."""
    states = [state for thread in threads for state in thread.states]
    # A thread of a pool may have nothing to do, whoever flushes meanwhile.
    factors = wait_factors(threads, events or SchedEvents())
    samples, counted = _counted(states, factors, flushes=clients is not None)
    if not counted:
        return None
    counts: defaultdict[str, float] = defaultdict(float)
    places: defaultdict[Place, float] = defaultdict(float)
    for state, name, count in counted:
        counts[name] += count
        if count and name not in _NOT_BLOCKED:
            stack = state.stack or state.wchan
            places[Place(name, state.syscall, state.target, stack)] += count
    n_threads = len(threads) if clients is None else clients
    return ForegroundStates(n_threads, samples, dict(counts), dict(places))


def _counted(
    states: Sequence[_State], factors: Mapping[str, float], *, flushes: bool
) -> tuple[int, list[tuple[_State, str, float]]]:
    """Return the number of samples, and how many of them each state stands for, by class.

    Where ``flushes``, a wait for a lock while the log is flushed counts as waiting for that.
    """
    samples = sum(int(state.count) for state in states)
    seconds = math.fsum(state.weight for state in states)
    found: list[tuple[_State, str, float]] = []
    for state in states if samples and seconds else ():
        count = samples * state.weight * factors.get(state.state_class, 1.0) / seconds
        is_flush = state.state_class == "lock" and flushes
        flushing = count * state.during_sync / state.count if is_flush else 0.0
        found += [(state, state.state_class, count - flushing), (state, _FLUSH, flushing)]
    return samples, found


_RUNNING = "running"
# What a thread waited for, by how it slept and who woke it.
_WOKEN_BY_SERVER, _TIMED_OUT = ("S", "own"), ("S", "kernel")
_CLASSES: Mapping[tuple[str, str], str] = {_WOKEN_BY_SERVER: "lock", ("S", "other"): "network"}

_FEWEST = 30  # waits
_FEWEST_WINDOWS = 3  # in which they ended
_SHORT = 0.05  # of a window
_UNKNOWN = 0.1  # of the waits' time may the time be of which nothing is known


def wait_factors(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return factors for the sampled seconds of ``threads``, by class of states, if known.

    Samples of threads find short waits too often or too seldom where CPUs are few (see
    ``collect.sched_waits``). Events of the scheduler show how long threads slept until another
    thread of the server woke them (waiting for a lock), or somebody outside of it (waiting for a
    client), and how long they were not blocked at all. The samples are scaled to the time that they
    show where such waits are many, and short compared with the windows in which events were
    recorded, and where little time in the windows is unknown.

    A wait for a lock may have a limit, and the kernel ends it when that is over, as it ends all
    sleep with a limit: such time is divided among locks and mere sleep as it was sampled.
    """
    shares = _shares(threads, events)
    all_s = _seconds(threads)
    sampled = {name: _seconds(threads, name) for name in shares}
    found = {name: share * all_s / sampled[name] for name, share in shares.items() if sampled[name]}
    return found if found.keys() - {_RUNNING} else {}


def _shares(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return the shares of time that threads waited, by class, and that they ran."""
    tids = {thread.tid for thread in threads}
    traced = [thread for thread in events.threads or () if thread.tid in tids]
    if not traced or sum(thread.windows for thread in traced) < _FEWEST_WINDOWS:
        return {}
    assert events.seconds is not None  # where there are threads
    assert events.windows is not None
    unknown_s = math.fsum(thread.unknown_s for thread in traced)
    known_s = events.seconds * len(traced) - unknown_s
    short_s = _SHORT * events.seconds / events.windows
    locks_s, sleep_s = _seconds(threads, "lock"), _seconds(threads, "sleep")
    count, seconds = _waits(traced, locks_s / (locks_s + sleep_s) if locks_s else 0.0)
    found = {
        name: seconds[kind] / known_s
        for kind, name in _CLASSES.items()
        if count[kind] >= _FEWEST
        and seconds[kind] <= short_s * count[kind]
        and unknown_s <= _UNKNOWN * seconds[kind]
    }
    blocked_s = math.fsum(thread.blocked_s for thread in traced)
    return {**found, _RUNNING: (known_s - blocked_s) / known_s} if found else {}


def _waits(
    traced: Sequence[ScheduledThread], lock_share: float
) -> tuple[Mapping[tuple[str, str], float], Mapping[tuple[str, str], float]]:
    """Return number and seconds of waits by how a thread slept and who woke it.

    A wait for a lock with a time limit looks like mere sleep where the timer ended it:
    ``lock_share`` of those count as locks.
    """
    count: defaultdict[tuple[str, str], float] = defaultdict(float)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for thread in traced:
        for wait in thread.waits:
            kind = wait.state, wait.woken_by
            count[kind] += wait.count
            seconds[kind] += wait.seconds
    count[_WOKEN_BY_SERVER] += lock_share * count[_TIMED_OUT]
    seconds[_WOKEN_BY_SERVER] += lock_share * seconds[_TIMED_OUT]
    return count, seconds


def _seconds(threads: Sequence[SampledThread], name: str | None = None) -> float:
    """Sum the sampled time of threads in the states of a class, or in all, in s."""
    return math.fsum(
        state.weight
        for thread in threads
        for state in thread.states
        if name is None or state.state_class == name
    )
