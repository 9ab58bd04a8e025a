"""Derive waits from scheduler events: how long threads were blocked, and who woke them.

A thread that leaves its CPU (``sched_switch``) is blocked from then on, unless another one merely
preempted it, until it enters the queue of a CPU again (``sched_wakeup``). The cause comes a moment
earlier (``sched_waking``): a thread that ran there, or the kernel, for a device or a timer. From
then on the thread is ready, until it gets a CPU (``sched_switch`` again, of the thread that leaves
it).
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
