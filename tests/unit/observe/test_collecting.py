"""When observers look, and what is made of what they find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest

from millrace.observe.collecting import Edge, Make, Window, collecting
from millrace.observe.model import Observer, Target, Unavailable

DRIVEN = Window("measure", "measure", drives=True)
LOADING = Window("load", "finish", drives=False)
BEGIN = {"type": "mark", "phase": "measure", "mark": "measure_started", "t_s": 1.0}
END = {"type": "mark", "phase": "measure", "mark": "measure_ended", "t_s": 2.0}


def started(phase: str) -> dict[str, Any]:
    return {"type": "mark", "phase": phase, "mark": "phase_started", "t_s": 0.0}


def ended(phase: str, kind: str = "sql") -> dict[str, Any]:
    return {"type": "phase", "name": phase, "kind": kind}


@pytest.mark.parametrize(
    ("window", "event", "edge"),
    [
        (DRIVEN, BEGIN, "begin"),
        (DRIVEN, END, "end"),
        (DRIVEN, started("measure"), None),
        (DRIVEN, ended("measure", "drive"), None),
        (DRIVEN, {"type": "interval", "phase": "measure"}, None),
        (LOADING, started("create"), None),
        (LOADING, started("load"), "begin"),
        (LOADING, ended("load", "load_data"), None),
        (LOADING, started("finish"), None),
        (LOADING, ended("finish"), "end"),
        (LOADING, {"type": "summary"}, None),
    ],
)
def test_the_measured_part_has_two_edges(
    window: Window, event: Mapping[str, Any], edge: Edge | None
) -> None:
    assert window.edge(event) == edge


@dataclass
class Recorded:
    """An observer that notes what it is asked, and fails where it is to."""

    fails: Mapping[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.fails:
            raise self.fails[what]

    def begin(self) -> None:
        self._ask("begin")

    def end(self) -> None:
        self._ask("end")

    def told(self) -> Mapping[str, Any]:
        self._ask("told")
        return {"seen": self.asked[:2], "missing": [{"what": "I/O", "remedy": "be root"}]}

    def close(self) -> None:
        self.asked.append("close")


def maker(observer: Observer) -> Make:
    return lambda _target: observer


def collected(
    observer: Make, target: Target, events: tuple[Mapping[str, Any], ...] = (BEGIN, END)
) -> dict[str, Any]:
    with collecting({"one": observer}, ["one"], target, DRIVEN) as collector:
        for event in events:
            collector.see(event)
        return collector.document()


@pytest.fixture
def target() -> Target:
    """No observer here looks at its target."""
    nobody: Any = None
    return Target(nobody, None, None, "test", {}, 1.0)


def test_an_observer_looks_at_both_edges_once_and_is_closed(target: Target) -> None:
    observer = Recorded()
    found = collected(maker(observer), target, (END, BEGIN, BEGIN, END, END))
    assert observer.asked == ["begin", "end", "told", "close"]
    assert found["observers"] == ["one"]
    assert found["seen"] == ["begin", "end"]
    assert found["window_s"] >= 0
    assert found["missing"] == [{"observer": "one", "what": "I/O", "remedy": "be root"}]


@pytest.mark.parametrize("events", [(), (BEGIN,), (END,)])
def test_a_measurement_without_an_end_was_not_observed(
    target: Target, events: tuple[Mapping[str, Any], ...]
) -> None:
    observer = Recorded()
    assert collected(maker(observer), target, events) == {}
    assert observer.asked[-1] == "close"


@pytest.mark.parametrize("at", ["begin", "end", "told"])
@pytest.mark.parametrize(
    ("problem", "what", "remedy"),
    [
        (Unavailable("perf is not here", remedy="install it"), "perf is not here", "install it"),
        (PermissionError(13, "Permission denied", "/proc/1/io"), "/proc/1/io: Permission", None),
        (pymysql.err.OperationalError(1142, "SELECT denied"), "SELECT denied", None),
    ],
)
def test_an_observer_that_cannot_look_is_missed_and_the_rest_goes_on(
    target: Target, at: str, problem: Exception, what: str, remedy: str | None
) -> None:
    broken, whole = Recorded({at: problem}), Recorded()
    makers = {"broken": maker(broken), "whole": maker(whole)}
    with collecting(makers, ["broken", "whole"], target, DRIVEN) as collector:
        collector.see(BEGIN)
        collector.see(END)
        found = collector.document()
    assert found["observers"] == ["whole"]
    (missing,) = (each for each in found["missing"] if each["observer"] == "broken")
    assert missing["what"].startswith(what)
    assert missing["remedy"] == remedy
    assert broken.asked[-2:] == [at, "close"]
    assert whole.asked == ["begin", "end", "told", "close"]


def test_an_observer_that_cannot_even_begin_is_missed(target: Target) -> None:
    def refuse(_target: Target) -> Observer:
        raise Unavailable("no Performance Schema in this build")

    found = collected(refuse, target)
    assert found["observers"] == []
    assert found["missing"][0]["what"] == "no Performance Schema in this build"


def test_a_defect_of_an_observer_is_not_hidden(target: Target) -> None:
    observer = Recorded({"begin": ZeroDivisionError()})
    with pytest.raises(ZeroDivisionError):
        collected(maker(observer), target)
    assert observer.asked[-1] == "close"
