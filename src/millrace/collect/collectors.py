"""Run all collectors of a trial at the edges of its measured part, and merge their observations.

They run one after the other: at the begin in the order of ``registry``, at the end in reverse, so
that the window of each holds little of the others' work.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from millrace.collect.model import Collector, ConnectionCollector, RepeatableCollector, Target
from millrace.errors import DatabaseError, MillraceError, Unavailable
from millrace.loadgen.events import Event, Mark, PhaseResult, TablesResult
from millrace.model.documents import Document
from millrace.model.observations import Threads
from millrace.model.sampled_threads import States

Edge = Literal["begin", "end"]
CollectorFactory = Callable[[Target], Collector]

Result = TypeVar("Result")

_FAILURES = (Unavailable, OSError, DatabaseError)

# Sections with the name of their collector, whose amounts count from its first reading.
_COUNTED = frozenset({"threads", "states", "host", "disk", "status", "waits", "profile"})


@dataclass(frozen=True)
class Window:
    """The measured part: between marks of a drive phase, or from ``first`` through ``last``.

    What a replica applies is of the second kind, though clients are driven on its source.
    """

    first: str
    last: str
    drives: bool

    def edge(self, event: Event) -> Edge | None:
        """Return the edge of the measured part that an event marks; None where it marks none."""
        match event:
            case Mark(mark="measure_started") if self.drives:
                return "begin"
            case Mark(mark="measure_ended") if self.drives:
                return "end"
            case Mark(mark="phase_started", phase=phase) if not self.drives and phase == self.first:
                return "begin"
            case PhaseResult(name=name) | TablesResult(name=name) if (
                not self.drives and name == self.last
            ):
                return "end"
        return None


class CollectorSet:
    """The collectors of one trial."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._collectors: dict[str, Collector] = {}
        self._missing: list[tuple[str, Exception]] = []
        self._began: float | None = None
        self._window_s: float | None = None
        self._late_s: dict[str, float] = {}
        self._repeated: tuple[str, ...] = ()

    def open(self, name: str, make: CollectorFactory, target: Target, opened: ExitStack) -> None:
        """Add a collector, which closes with ``opened``."""
        try:
            collector = make(target)
        except _FAILURES as problem:
            self._missing.append((name, problem))
        else:
            opened.callback(collector.close)
            self._collectors[name] = collector

    def on_event(self, event: Event) -> None:
        """Handle an event of the load generator."""
        if self._window.drives and isinstance(event, Mark) and event.mark == "connected":
            self._each(_connected)
        edge = self._window.edge(event)
        if edge == "begin" and self._began is None:
            self._began = time.monotonic()
            self._each(self._begin)
        elif edge == "end" and self._began is not None and self._window_s is None:
            self._window_s = time.monotonic() - self._began
            self._each(lambda _, collector: collector.end(), in_reverse=True)

    @property
    def wants_more(self) -> bool:
        """Return whether the measured part is over and some collector observed too little of it."""
        return self._window_s is not None and bool(self._unsatisfied())

    def on_repeated_event(self, event: Event) -> None:
        """Handle an event of a repetition, only for the collectors that observed too little."""
        edge = self._window.edge(event)
        if edge == "begin":
            self._repeated = self._unsatisfied()
            self._each(lambda _, collector: collector.begin(), of=self._repeated)
        elif edge == "end":
            self._each(lambda _, each: each.end(), of=self._repeated, in_reverse=True)

    @property
    def missing(self) -> list[dict[str, str | None]]:
        """Return the parts that could not be observed: ``observer``, ``what`` and ``hint``."""
        return [{"observer": name, **_described(problem)} for name, problem in self._missing]

    def document(self) -> dict[str, Any]:
        """Return all observations; empty where the measured part had no end.

        ``late_s`` is the time from the begin to a section's first reading.
        """
        if self._window_s is None:
            return {}
        observations = self._each(lambda _, collector: collector.result())
        sections: dict[str, object] = {}
        for name, found in observations.items():
            self._missing += [(name, part) for part in found.missing]
            sections |= found.sections
        document = as_json(agreed(sections))
        for name in _COUNTED & observations.keys() & sections.keys():
            document[name]["late_s"] = self._late_s[name]
        return {
            "window_s": self._window_s,
            "observers": list(self._collectors),
            "missing": self.missing,
            **document,
        }

    def _begin(self, name: str, collector: Collector) -> None:
        assert self._began is not None
        before = time.monotonic()
        collector.begin()
        # A reading takes a while; its middle counts as its time.
        self._late_s[name] = (before + time.monotonic()) / 2 - self._began

    def _unsatisfied(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, collector in self._collectors.items()
            if isinstance(collector, RepeatableCollector) and collector.wants_more
        )

    def _each(
        self,
        call: Callable[[str, Collector], Result],
        *,
        of: Collection[str] | None = None,
        in_reverse: bool = False,
    ) -> dict[str, Result]:
        """Call every collector, or those of ``of``, and return the results by name.

        A collector that fails takes no further part, and closes after all others were called.
        """
        results = {}
        failed = []
        names = [name for name in self._collectors if of is None or name in of]
        for name in reversed(names) if in_reverse else names:
            try:
                results[name] = call(name, self._collectors[name])
            except (*_FAILURES, ValidationError) as problem:
                failed.append(self._collectors.pop(name))
                if isinstance(problem, ValidationError):
                    problem = _impossible(problem)
                self._missing.append((name, problem))
        for collector in failed:
            collector.close()
        return results


def _impossible(problem: ValidationError) -> Unavailable:
    """Return the error for a figure that cannot be right; raise it for a missing one, a defect."""
    first = problem.errors(include_input=False)[0]
    if first["type"] == "missing":
        raise problem
    place = ".".join(map(str, first["loc"]))
    return Unavailable(f"figures that cannot be right: {place}: {first['msg']}")


def _connected(_name: str, collector: Collector) -> None:
    if isinstance(collector, ConnectionCollector):
        collector.connected()


def agreed(sections: Mapping[str, object]) -> Mapping[str, object]:
    """Return the sections with the samples' kind of each thread: samples observe more waits."""
    usage, states = sections.get("threads"), sections.get("states")
    if not isinstance(usage, Threads) or not isinstance(states, States):
        return sections
    kinds = {thread.tid: thread.kind for thread in states.threads or ()}
    threads = tuple(
        each.replace(kind=kinds.get(each.tid, each.kind)) for each in usage.threads or ()
    )
    return {**sections, "threads": usage.replace(threads=threads)}


def as_json(value: Any) -> Any:
    """Return documents and records as plain data."""
    if isinstance(value, Document):
        return value.to_json()
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def collecting(
    makers: Mapping[str, CollectorFactory], names: Sequence[str], target: Target, window: Window
) -> Iterator[CollectorSet]:
    """Open the collectors ``names`` in the order of ``makers``, and close them after the block."""
    with ExitStack() as opened:
        collectors = CollectorSet(window)
        for name in sorted(names, key=list(makers).index):
            collectors.open(name, makers[name], target, opened)
        yield collectors


def _described(problem: Exception) -> dict[str, str | None]:
    if isinstance(problem, MillraceError):
        return {"what": problem.message, "hint": problem.hint}
    assert isinstance(problem, OSError)
    where = f"{problem.filename}: " if problem.filename else ""
    return {"what": f"{where}{problem.strerror or problem}", "hint": None}
