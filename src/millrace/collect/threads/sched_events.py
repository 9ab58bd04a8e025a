"""From the scheduler's events to waits: how long threads were blocked, and who woke them.

A thread that leaves its CPU (``sched_switch``) is blocked from then on, unless it was only put
aside for another one, until it is put into the queue of a CPU again (``sched_wakeup``). Somebody
had that done a moment before (``sched_waking``): a thread that ran there, or the kernel, for a
device or because it was time. From then on it is ready, until it comes onto a CPU (``sched_switch``
again, of the thread that leaves it).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

EVENTS = ("sched_switch", "sched_waking", "sched_wakeup")

Waker = Literal["own", "other", "kernel"]
Doing = Literal["on_cpu", "ready", "blocked"]

_LINE = re.compile(
    r".*-(?P<current>\d+)\s+(?:\([\s\d-]+\)\s+)?\[\d+\]\s+(?P<flags>\S+)\s+(?P<at_s>\d+\.\d+): "
    rf"(?P<event>{'|'.join(EVENTS)}): (?P<told>.*)"
)
_SWITCH = re.compile(
    r"prev_comm=.* prev_pid=(?P<left>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=.* next_pid=(?P<came>\d+) next_prio="
)
_WOKEN = re.compile(r"comm=.* pid=(\d+) prio=-?\d+")
_READY, _SLEEPS, _UNKNOWN = "R", "S", "?"
_ASIDE_S = 0.0002  # from a look's taking a CPU to the look itself, at most
_IN_INTERRUPT = frozenset("hHzZ")  # by a device or a clock, whoever ran there


@dataclass(frozen=True)
class Left:
    """A thread left its CPU, in a state of the scheduler's, such as S; R where it could go on, but
    was put aside for ``to``."""

    at_s: float
    tid: int
    state: str
    to: int

    @property
    def is_ready(self) -> bool:
        return self.state.startswith(_READY)


@dataclass(frozen=True)
class Came:
    """A thread came onto a CPU."""

    at_s: float
    tid: int


@dataclass(frozen=True)
class Waking:
    """A thread is about to be woken; ``by`` ran there, None where it was an interrupt."""

    at_s: float
    tid: int
    by: int | None


@dataclass(frozen=True)
class Woken:
    """A thread can go on."""

    at_s: float
    tid: int


Event = Left | Came | Waking | Woken


@dataclass(frozen=True)
class Window:
    """A time in which events were noted; it stands for ``weight`` times its length."""

    from_s: float
    to_s: float
    weight: float = 1.0

    @property
    def seconds(self) -> float:
        return self.weight * (self.to_s - self.from_s)


@dataclass
class Sum:
    """How many waits, and how long they were in all, by weight."""

    count: int = 0
    seconds: float = 0.0


@dataclass
class Waits:
    """What a thread waited for, by the scheduler's letter and who woke it, in waits that ended in a
    window. Of one that began before it, what was inside counts twice: as often others are inside by
    as much that end after it, of which nobody knows who will end them.

    ``blocked_s`` is how long it was blocked inside of windows, whoever ended that; ``unknown_s``
    the windows in which it neither left a CPU nor was woken, ``windows`` in how many waits ended.
    All seconds are by weight.
    """

    sums: dict[tuple[str, Waker], Sum] = field(default_factory=lambda: defaultdict(Sum))
    blocked_s: float = 0.0
    unknown_s: float = 0.0
    windows: int = 0


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """The events in the text of a trace; their times are seconds of CLOCK_MONOTONIC."""
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        at_s, told = float(found["at_s"]), found["told"]
        if found["event"] == "sched_switch":
            if switch := _SWITCH.match(told):
                came = int(switch["came"])
                yield Left(at_s, int(switch["left"]), switch["state"], came)
                yield Came(at_s, came)
        elif woken := _WOKEN.match(told):
            tid = int(woken[1])
            if found["event"] == "sched_wakeup":
                yield Woken(at_s, tid)
            else:
                interrupted = not _IN_INTERRUPT.isdisjoint(found["flags"][2:3])
                yield Waking(at_s, tid, None if interrupted else int(found["current"]))


def waits(
    events: Iterable[Event],
    windows: Sequence[Window],
    tids: Collection[int],
    waker: Callable[[int], Waker],
) -> Mapping[int, Waits]:
    """What each of the threads waited for in ``windows``. ``waker`` says what a thread is that woke
    another one; None of them, and thread 0, are the kernel."""
    found = {tid: Waits() for tid in tids}
    known = by_thread(events)
    for tid, of_thread in found.items():
        for window in windows:
            _add(of_thread, inside(known.get(tid, ()), window), window, waker)
    return found


def by_thread(events: Iterable[Event]) -> Mapping[int, Sequence[Event]]:
    """The events of each thread, in their order: each CPU tells its own."""
    found: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        found[event.tid].append(event)
    return {tid: sorted(known, key=_when) for tid, known in found.items()}


def _when(event: Event) -> float:
    return event.at_s


def inside(events: Sequence[Event], window: Window) -> Sequence[Event]:
    """The events in a window, of those in their order."""
    first = bisect_left(events, window.from_s, key=_when)
    return events[first : bisect_right(events, window.to_s, key=_when)]


def doing(events: Sequence[Event], at_s: float, looker: int) -> Doing | None:
    """What a thread did at a moment, by its events in a window around it, in their order; None
    where none of them tells. One that was put aside for the ``looker`` just then was on a CPU."""
    now: Doing | None = None
    last: Left | Came | Woken | None = None
    for event in events:
        if isinstance(event, Waking):
            continue
        if event.at_s > at_s:
            now = now or _before(event)
            break
        # One that is on a CPU may be woken before it has left that.
        now = "on_cpu" if isinstance(event, Woken) and now == "on_cpu" else _after(event)
        last = event
    put_aside = isinstance(last, Left) and last.is_ready and last.to == looker
    return "on_cpu" if last and put_aside and at_s - last.at_s < _ASIDE_S else now


def _before(event: Left | Came | Woken) -> Doing:
    match event:
        case Left():
            return "on_cpu"
        case Came():
            return "ready"
        case Woken():
            return "blocked"


def _after(event: Left | Came | Woken) -> Doing:
    match event:
        case Left():
            return "ready" if event.is_ready else "blocked"
        case Came():
            return "on_cpu"
        case Woken():
            return "ready"


def _add(to: Waits, events: Sequence[Event], window: Window, waker: Callable[[int], Waker]) -> None:
    """Add what a thread waited for in a window. A wait whose end was not seen although the thread
    went on is forgotten."""
    left: Left | None = None
    by: int | None = None
    ended = 0
    known = False
    for event in events:
        match event:
            case Left():
                left = None if event.is_ready else event
            case Waking():
                by = event.by  # it may be woken before it has left its CPU
            case Woken():
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
            case Came():
                left = None
        known = known or not isinstance(event, Waking)
    if left is not None:
        to.blocked_s += window.weight * (window.to_s - left.at_s)
    to.unknown_s += 0.0 if known else window.seconds
    to.windows += ended > 0


def _state(left: Left | None, who: Waker) -> str:
    """The scheduler's letter; of waits that began before the window, what it is most often."""
    if left is not None:
        return left.state[0]
    return _UNKNOWN if who == "kernel" else _SLEEPS
