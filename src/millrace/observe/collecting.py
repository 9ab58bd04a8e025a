"""All observers of a trial, told when its measured part begins and ends, and what they found made
into one document."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import pymysql

from millrace.errors import MillraceError
from millrace.observe.model import Observer, Target, Unavailable
from millrace.observe.thread_kinds import agreed

VERSION = 1

Edge = Literal["begin", "end"]
Make = Callable[[Target], Observer]

_FAILURES = (Unavailable, OSError, pymysql.MySQLError)


@dataclass(frozen=True)
class Window:
    """The measured part by the load generator's events: that of a drive phase, by its marks, or
    from the begin of the phase ``first`` to the end of ``last``."""

    first: str
    last: str
    drives: bool

    def edge(self, event: Mapping[str, Any]) -> Edge | None:
        """Whether an event begins or ends the measured part."""
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


class Collector:
    """Has observers look at the edges of the measured part.

    ``missing`` tells what could not be observed, each with ``observer``, ``what`` and ``remedy``.
    """

    def __init__(self, window: Window) -> None:
        self.missing: list[dict[str, Any]] = []
        self._window = window
        self._observers: dict[str, Observer] = {}
        self._began: float | None = None
        self._window_s: float | None = None

    def open(self, name: str, make: Make, target: Target, opened: ExitStack) -> None:
        """Have an observer take part; it is closed with ``opened``."""
        try:
            observer = make(target)
        except _FAILURES as problem:
            self._miss(name, problem)
        else:
            opened.callback(observer.close)
            self._observers[name] = observer

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator."""
        edge = self._window.edge(event)
        if edge == "begin" and self._began is None:
            self._began = time.monotonic()
            self._each(lambda observer: observer.begin())
        elif edge == "end" and self._began is not None and self._window_s is None:
            self._window_s = time.monotonic() - self._began
            self._each(lambda observer: observer.end())

    def document(self) -> dict[str, Any]:
        """What was observed, empty where the measured part had no end."""
        if self._window_s is None:
            return {}
        sections: dict[str, Any] = {}
        for name, found in self._each(lambda observer: observer.told()).items():
            told = dict(found)
            for part in told.pop("missing", ()):
                self.missing.append({"observer": name, **part})
            sections |= told
        return {
            "version": VERSION,
            "window_s": self._window_s,
            "observers": list(self._observers),
            "missing": self.missing,
            **agreed(sections),
        }

    def _each(self, ask: Callable[[Observer], Any]) -> dict[str, Any]:
        """Ask every observer; one that cannot answer is left out from then on."""
        answers = {}
        for name, observer in list(self._observers.items()):
            try:
                answers[name] = ask(observer)
            except _FAILURES as problem:
                del self._observers[name]
                self._miss(name, problem)
        return answers

    def _miss(self, name: str, problem: Exception) -> None:
        what = problem.message if isinstance(problem, MillraceError) else _text(problem)
        remedy = problem.remedy if isinstance(problem, MillraceError) else None
        self.missing.append({"observer": name, "what": what, "remedy": remedy})


@contextlib.contextmanager
def collecting(
    makers: Mapping[str, Make], names: Sequence[str], target: Target, window: Window
) -> Iterator[Collector]:
    """The observers called ``names``, opened, and closed at the end of the block."""
    with ExitStack() as opened:
        collector = Collector(window)
        for name in names:
            collector.open(name, makers[name], target, opened)
        yield collector


def _text(problem: Exception) -> str:
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}"
    return str(problem.args[-1]) if problem.args else type(problem).__name__
