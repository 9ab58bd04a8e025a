"""Run all collectors of a trial at the edges of its measured part, and merge their results.

The merged results are one document.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from millrace.collect.model import Collector, ConnectionCollector, RepeatableCollector, Target
from millrace.collect.threads.thread_kinds import agreed
from millrace.errors import DatabaseError, MillraceError, Unavailable

VERSION = 1

Edge = Literal["begin", "end"]
CollectorFactory = Callable[[Target], Collector]

_FAILURES = (Unavailable, OSError, DatabaseError)

# Sections with the name of their collector, whose amounts count from its first look.
_COUNTED = frozenset({"threads", "states", "host", "disk", "status", "waits", "profile"})


@dataclass(frozen=True)
class Window:
    """The measured part of a trial, by the load generator's events.

    For a drive phase its marks delimit it; otherwise it lasts from the begin of the phase ``first``
    to the end of ``last``.
    """

    first: str
    last: str
    drives: bool

    def edge(self, event: Mapping[str, Any]) -> Edge | None:
        """Return the edge of the measured part that an event marks; None where it marks none."""
        match event["type"], event.get("mark"):
            case "mark", "measure_started":
                return "begin"
            case "mark", "measure_ended":
                return "end"
            case "mark", "phase_started" if not self.drives and event["phase"] == self.first:
                return "begin"
            case "phase", _ if not self.drives and event["name"] == self.last:
                return "end"
        return None


class CollectorSet:
    """The collectors of one trial, which look at the server at the edges of the measured part.

    They look one after the other: at the begin in the order in which they were opened, at the end
    in reverse, so that the window of each holds as little as possible of the others' work.
    ``missing`` lists the parts that no collector could observe, each with ``observer``, ``what``
    and ``remedy``.
    """

    def __init__(self, window: Window) -> None:
        self.missing: list[dict[str, Any]] = []
        self._window = window
        self._observers: dict[str, Collector] = {}
        self._began: float | None = None
        self._window_s: float | None = None
        self._late_s: dict[str, float] = {}
        self._looking_again: tuple[str, ...] = ()

    def open(self, name: str, make: CollectorFactory, target: Target, opened: ExitStack) -> None:
        """Add a collector, which closes with ``opened``."""
        try:
            observer = make(target)
        except _FAILURES as problem:
            self._miss(name, problem)
        else:
            opened.callback(observer.close)
            self._observers[name] = observer

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of the load generator."""
        if self._window.drives and event.get("mark") == "connected":
            early = {
                name: each
                for name, each in self._observers.items()
                if isinstance(each, ConnectionCollector)
            }
            self._each(lambda name, _: early[name].connected(), of=early)
        edge = self._window.edge(event)
        if edge == "begin" and self._began is None:
            self._began = time.monotonic()
            self._each(self._begin)
        elif edge == "end" and self._began is not None and self._window_s is None:
            self._window_s = time.monotonic() - self._began
            self._each(lambda _, observer: observer.end(), in_reverse=True)

    @property
    def wants_more(self) -> bool:
        """Return whether the measured part is over and some collector observed too little of it."""
        return self._window_s is not None and bool(self._unsated())

    def on_repeated_event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of a repetition of the measured part.

        Only the collectors that observed too little look again; all others keep their first result.
        """
        edge = self._window.edge(event)
        if edge == "begin":
            self._looking_again = self._unsated()
            self._each(lambda _, observer: observer.begin(), of=self._looking_again)
        elif edge == "end":
            self._each(lambda _, observer: observer.end(), of=self._looking_again, in_reverse=True)

    def document(self) -> dict[str, Any]:
        """Return the document of all observations; empty where the measured part had no end.

        ``late_s`` of a section is the time from the begin to its collector's first look, in
        seconds.
        """
        if self._window_s is None:
            return {}
        sections: dict[str, Any] = {}
        for name, found in self._each(lambda _, observer: observer.result()).items():
            result = dict(found)
            for part in result.pop("missing", ()):
                self.missing.append({"observer": name, **part})
            if name in _COUNTED:
                result[name] = {**result[name], "late_s": self._late_s[name]}
            sections |= result
        return {
            "version": VERSION,
            "window_s": self._window_s,
            "observers": list(self._observers),
            "missing": self.missing,
            **agreed(sections),
        }

    def _begin(self, name: str, observer: Collector) -> None:
        assert self._began is not None
        before = time.monotonic()
        observer.begin()
        # Reading takes a while; its middle counts as the time of the look.
        self._late_s[name] = (before + time.monotonic()) / 2 - self._began

    def _unsated(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, observer in self._observers.items()
            if isinstance(observer, RepeatableCollector) and observer.wants_more
        )

    def _each(
        self,
        ask: Callable[[str, Collector], Any],
        *,
        of: Collection[str] | None = None,
        in_reverse: bool = False,
    ) -> dict[str, Any]:
        """Call ``ask`` for every collector, or those of ``of``, and return the answers by name.

        A collector that fails takes no further part. It closes after all others have answered, so
        that nothing of it keeps running.
        """
        answers = {}
        failed = []
        names = [name for name in self._observers if of is None or name in of]
        for name in reversed(names) if in_reverse else names:
            try:
                answers[name] = ask(name, self._observers[name])
            except _FAILURES as problem:
                failed.append(self._observers.pop(name))
                self._miss(name, problem)
        for observer in failed:
            observer.close()
        return answers

    def _miss(self, name: str, problem: Exception) -> None:
        what = problem.message if isinstance(problem, MillraceError) else _text(problem)
        remedy = problem.hint if isinstance(problem, MillraceError) else None
        self.missing.append({"observer": name, "what": what, "remedy": remedy})


@contextlib.contextmanager
def collecting(
    makers: Mapping[str, CollectorFactory], names: Sequence[str], target: Target, window: Window
) -> Iterator[CollectorSet]:
    """Open the collectors ``names`` in the order of ``makers``, and close them after the block."""
    with ExitStack() as opened:
        collector = CollectorSet(window)
        for name in sorted(names, key=list(makers).index):
            collector.open(name, makers[name], target, opened)
        yield collector


def _text(problem: Exception) -> str:
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}"
    return type(problem).__name__
