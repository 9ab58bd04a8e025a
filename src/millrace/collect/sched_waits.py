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

A thread that leaves its CPU (``sched_switch``) is blocked from then on, unless another one merely
preempted it, until it enters the queue of a CPU again (``sched_wakeup``). The cause comes a moment
earlier (``sched_waking``): a thread that ran there, or the kernel, for a device or a timer. From
then on the thread is ready, until it gets a CPU (``sched_switch`` again, of the thread that leaves
it).
"""

import contextlib
import math
import random
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.collect.model import CollectorResult, Target
from millrace.collect.threads.connection_map import connection_map, slots_of_threads
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

EVENTS = ("sched_switch", "sched_waking", "sched_wakeup")

Waker = Literal["own", "other", "kernel"]
SchedState = Literal["on_cpu", "ready", "blocked"]

_LINE = re.compile(
    r".*-(?P<current>\d+)\s+(?:\([\s\d-]+\)\s+)?\[\d+\]\s+(?P<flags>\S+)\s+(?P<at_s>\d+\.\d+): "
    rf"(?P<event>{'|'.join(EVENTS)}): (?P<details>.*)"
)
_SWITCH = re.compile(
    r"prev_comm=.* prev_pid=(?P<left>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=.* next_pid=(?P<came>\d+) next_prio="
)
_WOKEN = re.compile(r"comm=.* pid=(\d+) prio=-?\d+")
_READY, _SLEEPS, _UNKNOWN = "R", "S", "?"
_ASIDE_S = 0.0002  # the longest time from when a sample takes a CPU to the sample itself
_IN_INTERRUPT = frozenset("hHzZ")  # by a device or a timer, whatever thread ran there


@dataclass(frozen=True)
class SwitchOut:
    """A thread left its CPU in a scheduler state such as S, or R where ``to`` preempted it."""

    at_s: float
    tid: int
    state: str
    to: int

    @property
    def is_ready(self) -> bool:
        return self.state.startswith(_READY)


@dataclass(frozen=True)
class SwitchIn:
    """A thread got a CPU."""

    at_s: float
    tid: int


@dataclass(frozen=True)
class Waking:
    """A thread is about to wake; ``by`` ran there, None where an interrupt wakes it."""

    at_s: float
    tid: int
    by: int | None


@dataclass(frozen=True)
class Wakeup:
    """A thread can go on."""

    at_s: float
    tid: int


Event = SwitchOut | SwitchIn | Waking | Wakeup


@dataclass(frozen=True)
class Window:
    """A traced time span, which represents ``weight`` times its length."""

    from_s: float
    to_s: float
    weight: float = 1.0

    @property
    def seconds(self) -> float:
        return self.weight * (self.to_s - self.from_s)


@dataclass
class Sum:
    """The number of waits and their total time in seconds, both by weight."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class Waits:
    """The waits of a thread that ended in a window, by the scheduler's letter and the waker.

    Of a wait that began before the window, the part inside counts twice. Just as often a wait with
    an equal part inside ends after the window, with an unknown waker.

    ``blocked_s`` is the time blocked inside of windows, whoever ended it; ``unknown_s`` the time of
    the windows without a switch or wakeup of the thread; ``windows`` the number of windows in which
    a wait ended. All seconds are by weight.
    """

    sums: dict[tuple[str, Waker], Sum] = field(default_factory=lambda: defaultdict(Sum))
    blocked_s: float = 0.0
    unknown_s: float = 0.0
    windows: int = 0


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events in the text of a trace; their times are seconds of CLOCK_MONOTONIC."""
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        at_s, details = float(found["at_s"]), found["details"]
        if found["event"] == "sched_switch":
            if switch := _SWITCH.match(details):
                came = int(switch["came"])
                yield SwitchOut(at_s, int(switch["left"]), switch["state"], came)
                yield SwitchIn(at_s, came)
        elif woken := _WOKEN.match(details):
            tid = int(woken[1])
            if found["event"] == "sched_wakeup":
                yield Wakeup(at_s, tid)
            else:
                interrupted = not _IN_INTERRUPT.isdisjoint(found["flags"][2:3])
                yield Waking(at_s, tid, None if interrupted else int(found["current"]))


def waits(
    events: Iterable[Event],
    windows: Sequence[Window],
    tids: Collection[int],
    waker: Callable[[int], Waker],
) -> Mapping[int, Waits]:
    """Return the waits of each thread in ``windows``; ``waker`` classifies who woke it."""
    found = {tid: Waits() for tid in tids}
    known = by_thread(events)
    for tid, of_thread in found.items():
        for window in windows:
            _add(of_thread, inside(known.get(tid, ()), window), window, waker)
    return found


def by_thread(events: Iterable[Event]) -> Mapping[int, Sequence[Event]]:
    """Return the events of each thread, sorted by time: the trace lists each CPU on its own."""
    found: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        found[event.tid].append(event)
    return {tid: sorted(known, key=_when) for tid, known in found.items()}


def _when(event: Event) -> float:
    return event.at_s


def inside(events: Sequence[Event], window: Window) -> Sequence[Event]:
    """Return the events in a window, from events sorted by time."""
    first = bisect_left(events, window.from_s, key=_when)
    return events[first : bisect_right(events, window.to_s, key=_when)]


def state_at(events: Sequence[Event], at_s: float, sampler: int) -> SchedState | None:
    """Return a thread's state by its sorted events around a moment; None where none shows it.

    A thread that the ``sampler`` preempted a moment ago counts as on a CPU.
    """
    now: SchedState | None = None
    last: SwitchOut | SwitchIn | Wakeup | None = None
    for event in events:
        if isinstance(event, Waking):
            continue
        if event.at_s > at_s:
            now = now or _BEFORE[type(event)]
            break
        # A thread on a CPU may be woken before it has left that CPU.
        now = "on_cpu" if isinstance(event, Wakeup) and now == "on_cpu" else _after(event)
        last = event
    put_aside = isinstance(last, SwitchOut) and last.is_ready and last.to == sampler
    return "on_cpu" if last and put_aside and at_s - last.at_s < _ASIDE_S else now


_BEFORE: Mapping[type[Event], SchedState] = {
    SwitchOut: "on_cpu", SwitchIn: "ready", Wakeup: "blocked",
}  # fmt: skip


def _after(event: SwitchOut | SwitchIn | Wakeup) -> SchedState:
    if isinstance(event, SwitchOut):
        return "ready" if event.is_ready else "blocked"
    return "on_cpu" if isinstance(event, SwitchIn) else "ready"


def _add(to: Waits, events: Sequence[Event], window: Window, waker: Callable[[int], Waker]) -> None:
    """Add a thread's waits in a window, but for those whose end is missing from the trace."""
    left: SwitchOut | None = None
    by: int | None = None
    ended = 0
    known = False
    for event in events:
        match event:
            case SwitchOut():
                left = None if event.is_ready else event
            case Waking():
                by = event.by  # a thread may be woken before it has left its CPU
            case Wakeup():
                if left is not None or not known:
                    who: Waker = waker(by) if by else "kernel"
                    began_s = window.from_s if left is None else left.at_s
                    seconds = window.weight * (event.at_s - began_s)
                    total = to.sums[_state(left, who), who]
                    total.count += 1
                    total.seconds += seconds if known else 2 * seconds
                    to.blocked_s += seconds
                    ended += 1
                left, by = None, None
            case SwitchIn():
                left = None
        known = known or not isinstance(event, Waking)
    if left is not None:
        to.blocked_s += window.weight * (window.to_s - left.at_s)
    to.unknown_s += 0.0 if known else window.seconds
    to.windows += ended > 0


def _state(left: SwitchOut | None, who: Waker) -> str:
    """Return the scheduler's letter; for waits that began before the window, the likeliest one."""
    if left is not None:
        return left.state[0]
    return _UNKNOWN if who == "kernel" else _SLEEPS


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
        events = list(parse(self._tracing.text().splitlines()))
        windows = weighted(self._windows, self._began_s)
        found = waits(events, windows, self._tids, wakers(self._server_tids))
        observed = SchedEvents(
            windows=len(windows),
            seconds=math.fsum(window.seconds for window in windows),
            threads=tuple(blocked(found)),
            statements=scheduled_statements(events, windows, self._samples, self._sampler_tid),
        )
        return CollectorResult({NAME: observed}, missing(found.values(), self._tracing.lost()))

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
    of_threads = by_thread(events)
    for window in windows:
        shown = {tid: inside(known, window) for tid, known in of_threads.items()}
        for sample in samples:
            if window.from_s <= sample.at_s <= window.to_s:
                for tid, statement in sample.statements.items():
                    state = state_at(shown.get(tid, ()), sample.at_s, sampler)
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
