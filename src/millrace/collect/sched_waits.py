"""Collect how long the threads that serve clients were blocked, from scheduler events in windows.

Samples at random moments (``states``) show the reasons for which threads wait. On a host with few
CPUs a sample takes a CPU from a thread, or waits for an idle one, and so finds threads blocked that
would otherwise run. The events show the length of waits of a few microseconds, and who ended them:
a thread of the server, a process outside of it, or the kernel.

Where clients publish their statements, this collector samples the statements within the windows.
The events show for each sample whether the thread was on a CPU, or ready without one; samples of
the threads themselves cannot distinguish these.

Cost: the kernel records when one of up to 8 threads leaves its CPU or is woken, for a hundredth of
a second, at first three times a second, then less often. Meanwhile the statements are sampled every
half millisecond.
"""

import contextlib
import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from millrace.collect.model import CollectorResult, Target
from millrace.collect.threads import sched_events
from millrace.collect.threads.connection_map import connection_map, slots_of_threads
from millrace.collect.threads.sched_events import EVENTS, Event, Waits, Waker, Window
from millrace.collect.threads.thread_watch import ThreadWatch, require_process
from millrace.databases.monitoring import POOL
from millrace.errors import Unavailable
from millrace.host import procfs
from millrace.host.tracing import Tracing
from millrace.loadgen.statement_activity import MappedActivity
from millrace.model.sampled_threads import (
    SchedEvents,
    ScheduledStatement,
    ScheduledThread,
    SchedWait,
)

NAME = "switches"
_MOST_THREADS = 8  # a filter of the kernel compares with each
_WINDOW_S = 0.01
# The gap between windows varies at random by half; it grows, so that there are only some dozen
# windows. Each window of many threads shows more; but the CPUs are busy then, so it costs more.
_FIRST_GAP_S, _GROWTH = 0.3, 1.05
_SAMPLE_S = 0.0005  # from one sample of the statements to the next, random by half
_SEARCH_S = 0.1  # from one search for threads to the next, while there are none
_SETTLED_S = 0.001  # enabling the events keeps the CPUs busy for a moment
_HANDS_OUT = "ksoftirqd/"
_NOTICEABLE_LOSS = 0.01


@dataclass(frozen=True)
class ActivitySample:
    """The statements of clients at a moment, by the threads that serve them."""

    at_s: float
    statements: Mapping[int, str]


class SchedWaitCollector:
    """A collector of scheduler events; see collect.model.Collector and ConnectionCollector.

    It chooses the threads of driven clients at the begin. A client that loads tables connects
    later: the listening thread searches for its thread first.
    """

    def __init__(self, watch: ThreadWatch, tracing: Tracing, target: Target) -> None:
        self._watch = watch
        self._tracing = tracing
        self._activity = target.statement_activity
        self._port = target.client.port
        self._has_clients = False
        self._over = threading.Event()
        self._windows: list[tuple[float, float]] = []
        self._began_s = 0.0
        self._server_tids: frozenset[int] = frozenset()
        self._tids: frozenset[int] = frozenset()
        self._slots: Mapping[int, int] = {}
        self._samples: list[ActivitySample] = []
        self._sampler_tid = 0
        self._failure: OSError | None = None
        self._listening: threading.Thread | None = None

    def connected(self) -> None:
        """Find the threads that wait for a client's first request: these serve the clients."""
        self._has_clients = True
        samples = self._watch.sample()
        # Where a client has a single statement, all of its time belongs to that one.
        if self._activity is not None and len(self._activity.statements()) > 1:
            slots = connection_map(self._activity, self._watch.pid, self._port)
            self._slots = slots_of_threads(samples, slots)

    def begin(self) -> None:
        self._began_s = time.monotonic()
        if self._has_clients:
            self._choose()
        else:
            self._server_tids |= frozenset(self._watch.sample())
        if self._tids or not self._has_clients:
            self._listening = threading.Thread(target=self._listen, name=NAME, daemon=True)
            self._listening.start()

    def end(self) -> None:
        self._stop_listening()
        # Threads that exist at either mark count; those of clients end soon.
        self._server_tids |= frozenset(self._watch.sample())
        if self._failure is not None:
            raise self._failure

    def result(self) -> CollectorResult:
        if not self._tids:
            if self._has_clients:
                raise Unavailable("no thread that serves a client was known when it began")
            return CollectorResult({})  # a load that was over before one was found
        events = list(sched_events.parse(self._tracing.text().splitlines()))
        windows = weighted(self._windows, self._began_s)
        found = sched_events.waits(events, windows, self._tids, wakers(self._server_tids))
        waits = SchedEvents(
            windows=len(windows),
            seconds=math.fsum(window.seconds for window in windows),
            threads=tuple(blocked(found)),
            statements=scheduled_statements(events, windows, self._samples, self._sampler_tid),
        )
        return CollectorResult({NAME: waits}, missing(found.values(), self._tracing.lost()))

    def close(self) -> None:
        self._stop_listening()
        self._tracing.close()
        self._watch.close()

    def _choose(self) -> None:
        self._server_tids |= frozenset(self._watch.sample())
        serving = self._watch.serving
        tids = [tid for tid, kind in self._watch.kinds().items() if kind == serving]
        self._tids = frozenset(random.sample(tids, min(len(tids), _MOST_THREADS)))

    def _stop_listening(self) -> None:
        self._over.set()
        if self._listening is not None:
            self._listening.join()
            self._listening = None

    def _listen(self) -> None:
        self._sampler_tid = threading.get_native_id()
        try:
            while not self._tids and not self._over.wait(_SEARCH_S):
                # Other sessions are idle while tables are loaded.
                self._choose()
                self._began_s = time.monotonic()
            if not self._tids:
                return
            gap_s = _FIRST_GAP_S * math.sqrt(len(self._tids))
            slots = {tid: slot for tid, slot in self._slots.items() if tid in self._tids}
            with contextlib.ExitStack() as opened:
                shown = None
                if self._activity is not None and slots:
                    shown = opened.enter_context(self._activity.mapped())
                self._tracing.set_filters(filters(self._tids, both=shown is not None))
                while not self._over.wait(_about(gap_s)):
                    self._tracing.start()
                    self._over.wait(_SETTLED_S)
                    began_s = time.monotonic()
                    if shown is None:
                        self._over.wait(_WINDOW_S)
                    else:
                        self._sample(shown, slots, began_s + _WINDOW_S)
                    self._windows.append((began_s, time.monotonic()))
                    self._tracing.stop()
                    gap_s *= _GROWTH
        except OSError as trouble:
            self._failure = trouble

    def _sample(self, shown: MappedActivity, slots: Mapping[int, int], until_s: float) -> None:
        """Sample the statements of clients until ``until_s``."""
        while not self._over.wait(_about(_SAMPLE_S)) and (now_s := time.monotonic()) < until_s:
            under_way = {tid: shown.statement_of(slot) for tid, slot in slots.items()}
            known = {tid: name for tid, name in under_way.items() if name is not None}
            self._samples.append(ActivitySample(now_s, known))


def _about(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311


def collector(target: Target) -> SchedWaitCollector:
    """Create the collector. Raise Unavailable where the scheduler's events are not accessible."""
    with contextlib.ExitStack() as opened:
        require_process(target)
        watch = ThreadWatch(target)
        opened.callback(watch.close)
        if watch.serving == POOL:
            raise Unavailable("clients share a pool of threads, which wait for work too")
        made = SchedWaitCollector(watch, Tracing(EVENTS), target)
        opened.pop_all()
        return made


def filters(tids: Collection[int], *, both: bool) -> Mapping[str, str]:
    """Return the filter of each event for these threads; ``both``: switches to them count too."""
    switched = ("prev_pid", "next_pid") if both else ("prev_pid",)
    fields = {"sched_switch": switched, "sched_waking": ("pid",), "sched_wakeup": ("pid",)}
    return {
        event: "||".join(f"{name}=={tid}" for name in names for tid in sorted(tids))
        for event, names in fields.items()
    }


def wakers(own: Collection[int]) -> Callable[[int], Waker]:
    """Return the function that classifies a thread that woke one of the ``own`` threads."""

    def waker(tid: int) -> Waker:
        if tid in own:
            return "own"
        text = procfs.read_or_none(f"/proc/{tid}/stat")
        if text is None or not (stat := procfs.stat(text)).is_kernel_thread:
            return "other"
        # A kernel thread that delivers packets of the network stands for their senders.
        return "other" if stat.name.startswith(_HANDS_OUT) else "kernel"

    known: dict[int, Waker] = {0: "kernel"}
    return lambda tid: known[tid] if tid in known else known.setdefault(tid, waker(tid))


def weighted(windows: Sequence[tuple[float, float]], began_s: float) -> Sequence[Window]:
    """Return the windows (begin, end), weighted by their shares of the time since the previous."""
    if not windows:
        return ()
    ends_s = [began_s, *(to_s for _, to_s in windows)]
    mean_s = (ends_s[-1] - began_s) / len(windows)
    return [
        Window(from_s, to_s, (to_s - before_s) / mean_s)
        for before_s, (from_s, to_s) in zip(ends_s, windows, strict=False)
    ]


def blocked(found: Mapping[int, Waits]) -> list[ScheduledThread]:
    """Return the waits of each thread, those with the longest sum first."""
    return [
        ScheduledThread(
            tid=tid,
            blocked_s=waits.blocked_s,
            unknown_s=waits.unknown_s,
            windows=waits.windows,
            waits=tuple(
                SchedWait(state=state, woken_by=by, count=each.count, seconds=each.seconds)
                for (state, by), each in sorted(
                    waits.sums.items(), key=lambda item: -item[1].seconds
                )
            ),
        )
        for tid, waits in sorted(found.items())
    ]


def scheduled_statements(
    events: Iterable[Event],
    windows: Iterable[Window],
    samples: Sequence[ActivitySample],
    sampler: int,
) -> tuple[ScheduledStatement, ...] | None:
    """Return how often statements' threads were on a CPU or ready, by weight; None: no samples."""
    if not samples:
        return None
    on_cpu: defaultdict[str, float] = defaultdict(float)
    ready: defaultdict[str, float] = defaultdict(float)
    by_thread = sched_events.by_thread(events)
    for window in windows:
        inside = {tid: sched_events.inside(known, window) for tid, known in by_thread.items()}
        for sample in samples:
            if window.from_s <= sample.at_s <= window.to_s:
                for tid, statement in sample.statements.items():
                    state = sched_events.state_at(inside.get(tid, ()), sample.at_s, sampler)
                    on_cpu[statement] += window.weight * (state == "on_cpu")
                    ready[statement] += window.weight * (state == "ready")
    return tuple(
        ScheduledStatement(statement=name, on_cpu=on_cpu[name], ready=ready[name])
        for name in sorted(on_cpu)
    )


def missing(found: Collection[Waits], lost: int) -> list[Unavailable]:
    """Return the events that the buffers lost, where these are too many."""
    counted = sum(each.count for waits in found for each in waits.sums.values())
    if lost <= _NOTICEABLE_LOSS * counted:
        return []
    return [Unavailable(f"{lost} scheduler events, which were lost")]
