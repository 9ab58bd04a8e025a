"""Test when collectors run, and how their findings are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from millrace.collect import thread_usage
from millrace.collect.collectors import CollectorFactory, Edge, Window, agreed, collecting
from millrace.collect.model import Collector, CollectorResult, Target
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.errors import DatabaseError, Unavailable
from millrace.loadgen.events import Event, Mark
from millrace.model.documents import Document
from millrace.model.observations import DIGEST_COUNTS, Digest, Threads, ThreadUsage, Usage
from millrace.model.sampled_threads import SampledThread, States
from tests.support.made_events import interval, mark
from tests.support.made_events import phase_ended as ended

DRIVEN = Window("measure", "measure", drives=True)
LOADING = Window("load", "finish", drives=False)
BEGIN, END = mark("measure_started"), mark("measure_ended")


def started(phase: str) -> Mark:
    return mark("phase_started", phase)


@pytest.mark.parametrize(
    ("window", "event", "edge"),
    [
        (DRIVEN, BEGIN, "begin"),
        (DRIVEN, END, "end"),
        (DRIVEN, started("measure"), None),
        (DRIVEN, ended("measure"), None),
        (DRIVEN, interval(), None),
        (LOADING, started("create"), None),
        (LOADING, BEGIN, None),
        (LOADING, END, None),
        (LOADING, started("load"), "begin"),
        (LOADING, ended("load", "load_data"), None),
        (LOADING, started("finish"), None),
        (LOADING, ended("finish"), "end"),
        (LOADING, interval(), None),
    ],
)
def test_the_measured_part_has_two_edges(window: Window, event: Event, edge: Edge | None) -> None:
    assert window.edge(event) == edge


@dataclass
class Clock:
    """A clock that advances only by a second whenever a collector does anything."""

    now_s: float = 100.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Recorded:
    """A collector that records its calls, and fails where the test says so."""

    fails: Mapping[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    section: str = "seen"
    clock: Clock | None = None

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.clock is not None:
            self.clock.now_s += 1.0
        if what in self.fails:
            raise self.fails[what]

    def begin(self) -> None:
        self._ask("begin")

    def end(self) -> None:
        self._ask("end")

    def result(self) -> CollectorResult:
        self._ask("result")
        return CollectorResult(
            {self.section: {"asked": self.asked[:2]}}, [Unavailable("I/O", hint="be root")]
        )

    def close(self) -> None:
        self.asked.append("close")


def maker(observer: Collector) -> CollectorFactory:
    return lambda _target: observer


def collected(
    observer: CollectorFactory, target: Target, events: tuple[Event, ...] = (BEGIN, END)
) -> dict[str, Any]:
    with collecting({"one": observer}, ["one"], target, DRIVEN) as collector:
        for event in events:
            collector.on_event(event)
        return collector.document()


@pytest.fixture
def target() -> Target:
    """Return a target that no collector here reads."""
    nobody: Any = None
    return Target(nobody, None, None, "test", {}, 1.0)


def test_an_observer_looks_at_both_edges_once_and_is_closed(target: Target) -> None:
    observer = Recorded()
    found = collected(maker(observer), target, (END, BEGIN, BEGIN, END, END))
    assert observer.asked == ["begin", "end", "result", "close"]
    assert found["observers"] == ["one"]
    assert found["seen"] == {"asked": ["begin", "end"]}
    assert found["window_s"] >= 0
    assert found["missing"] == [{"observer": "one", "what": "I/O", "hint": "be root"}]


@dataclass
class RecordedEarly(Recorded):
    def connected(self) -> None:
        self._ask("connected")


def test_some_look_before_the_clients_begin(target: Target) -> None:
    connected = mark("connected")
    early, other = RecordedEarly(), Recorded()
    collected(maker(early), target, (connected, BEGIN, END))
    collected(maker(other), target, (connected, BEGIN, END))
    assert early.asked == ["connected", "begin", "end", "result", "close"]
    assert other.asked == ["begin", "end", "result", "close"]
    failing = RecordedEarly({"connected": Unavailable("no")})
    assert collected(maker(failing), target, (connected, BEGIN, END))["observers"] == []
    assert set(failing.asked) == {"connected", "close"}


@pytest.mark.parametrize("events", [(), (BEGIN,), (END,)])
def test_a_measurement_without_an_end_was_not_observed(
    target: Target, events: tuple[Event, ...]
) -> None:
    observer = Recorded()
    assert collected(maker(observer), target, events) == {}
    assert observer.asked[-1] == "close"


@pytest.mark.parametrize("at", ["begin", "end", "result"])
@pytest.mark.parametrize(
    ("problem", "what", "hint"),
    [
        (Unavailable("perf is not here", hint="install it"), "perf is not here", "install it"),
        (PermissionError(13, "Permission denied", "/proc/1/io"), "/proc/1/io: Permission", None),
        (DatabaseError("SELECT denied", kind="forbidden", code="1142"), "SELECT denied", None),
    ],
)
def test_an_observer_that_cannot_look_is_missed_and_the_rest_goes_on(
    target: Target, at: str, problem: Exception, what: str, hint: str | None
) -> None:
    broken, whole = Recorded({at: problem}), Recorded()
    makers = {"broken": maker(broken), "whole": maker(whole)}
    with collecting(makers, ["broken", "whole"], target, DRIVEN) as collector:
        collector.on_event(BEGIN)
        collector.on_event(END)
        found = collector.document()
    assert found["observers"] == ["whole"]
    (missing,) = (each for each in found["missing"] if each["observer"] == "broken")
    assert missing["what"].startswith(what)
    assert missing["hint"] == hint
    # Closed at once, and again with the rest.
    assert broken.asked[-3:] == [at, "close", "close"]
    assert whole.asked == ["begin", "end", "result", "close"]


def test_an_observer_that_failed_is_closed_when_the_others_have_looked(target: Target) -> None:
    asked: list[str] = []
    broken = Recorded({"begin": Unavailable("no more")}, asked)
    makers = {"broken": maker(broken), "whole": maker(Recorded(asked=asked))}
    with collecting(makers, ["broken", "whole"], target, DRIVEN) as collector:
        collector.on_event(BEGIN)
        assert asked == ["begin", "begin", "close"]


def test_who_begins_first_ends_last(target: Target) -> None:
    looked: list[str] = []

    class Named(Recorded):
        def _ask(self, what: str) -> None:
            looked.append(f"{self.section} {what}")

    makers = {name: maker(Named(section=name)) for name in ("one", "two", "three")}
    with collecting(makers, ["three", "one", "two"], target, DRIVEN) as collector:
        collector.on_event(BEGIN)
        collector.on_event(END)
    assert looked == [
        "one begin", "two begin", "three begin", "three end", "two end", "one end",
    ]  # fmt: skip


def test_sections_of_amounts_tell_how_late_they_began(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("millrace.collect.collectors.time", clock)
    makers = {
        name: maker(Recorded(section=name, clock=clock)) for name in ("plans", "status", "disk")
    }
    with collecting(makers, list(makers), target, DRIVEN) as collector:
        collector.on_event(BEGIN)
        clock.now_s += 10.0
        collector.on_event(END)
        found = collector.document()
    assert found["window_s"] == 13.0
    # Each looks for a second, one after the other.
    assert (found["status"]["late_s"], found["disk"]["late_s"]) == (1.5, 2.5)
    assert found["disk"]["asked"] == ["begin", "end"]
    assert "late_s" not in found["plans"]


@dataclass
class Unsated(Recorded):
    """A collector that requires a number of observations of the measured part."""

    wanted: int = 3

    @property
    def wants_more(self) -> bool:
        return self.asked.count("begin") < self.wanted


def repeated(makers: Mapping[str, CollectorFactory], target: Target) -> tuple[int, dict[str, Any]]:
    """Return the number of repeated loads, and the observations.

    A load is repeated until every collector is satisfied."""
    times = 0
    with collecting(makers, list(makers), target, LOADING) as collector:
        for event in (started("load"), ended("load", "load_data"), started("finish")):
            collector.on_event(event)
            assert not collector.wants_more
        collector.on_event(ended("finish"))
        while collector.wants_more:
            times += 1
            for event in (started("create"), started("load"), ended("finish"), ended("count")):
                collector.on_repeated_event(event)
        return times, collector.document()


def test_only_who_saw_too_little_looks_again(target: Target) -> None:
    sated, unsated = Recorded(), Unsated(section="profile")
    makers = {"one": maker(sated), "profile": maker(unsated)}
    times, found = repeated(makers, target)
    assert times == 2
    assert unsated.asked == [*["begin", "end"] * 3, "result", "close"]
    assert sated.asked == ["begin", "end", "result", "close"]
    assert found["observers"] == ["one", "profile"]


def test_the_window_is_that_of_the_first_time(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("millrace.collect.collectors.time", clock)
    observer = Unsated(section="profile", clock=clock)
    _, found = repeated({"profile": maker(observer)}, target)
    assert found["window_s"] == 1.0  # the duration of its begin
    assert found["profile"]["late_s"] == 0.5


@pytest.mark.parametrize("wanted", [0, 1])
def test_nothing_is_repeated_for_who_saw_enough(target: Target, wanted: int) -> None:
    times, _ = repeated({"profile": maker(Unsated(section="profile", wanted=wanted))}, target)
    assert times == 0


def test_who_fails_when_looking_again_is_missed_and_ends_the_repetition(target: Target) -> None:
    class Tires(Unsated):
        def _ask(self, what: str) -> None:
            super()._ask(what)
            if self.asked.count("begin") == 2:
                raise Unavailable("perf is gone")

    times, found = repeated({"profile": maker(Tires(section="profile"))}, target)
    assert times == 1
    assert found["observers"] == []
    assert [each["what"] for each in found["missing"]] == ["perf is gone"]


def test_the_kinds_of_threads_are_those_of_the_samples() -> None:
    nothing = Usage(cpu_s=None)
    listed = Threads(
        process=nothing,
        threads=tuple(
            ThreadUsage(tid=tid, kind=kind)
            for tid, kind in ((4, "background"), (5, "purge"), (0, "ended"))
        ),
    )
    sampled = States(threads=(SampledThread(tid=4, kind="connection", states=()),))
    found = agreed({"threads": listed, "states": sampled, "disk": {}})
    assert isinstance(found["threads"], Threads)
    assert found["threads"].threads is not None
    assert [each.kind for each in found["threads"].threads] == ["connection", "purge", "ended"]
    assert found["threads"].process == nothing
    assert (found["states"], found["disk"]) == (sampled, {})
    assert agreed({"threads": listed}) == {"threads": listed}
    assert agreed({}) == {}


def test_samplers_work_while_nobody_else_looks() -> None:
    assert list(COLLECTORS)[-4:] == ["threads", "switches", "states", PROFILE]


def test_an_observer_that_cannot_even_begin_is_missed(target: Target) -> None:
    def refuse(_target: Target) -> Collector:
        raise Unavailable("no Performance Schema in this build")

    found = collected(refuse, target)
    assert found["observers"] == []
    assert found["missing"][0]["what"] == "no Performance Schema in this build"


def test_figures_that_cannot_be_right_are_missed(target: Target) -> None:
    def negative() -> object:
        return Usage(cpu_s=-1.0)

    class Wrong(Recorded):
        def result(self) -> CollectorResult:
            return CollectorResult({"threads": negative()})

    found = collected(maker(Wrong()), target)
    assert "cannot be right: cpu_s" in found["missing"][0]["what"]


def test_a_figure_that_a_collector_forgot_is_a_defect(target: Target) -> None:
    class Forgetful(Recorded):
        def result(self) -> CollectorResult:
            return CollectorResult({"threads": ThreadUsage(cpu_s=1.0)})  # type: ignore[call-arg]

    with pytest.raises(ValidationError):
        collected(maker(Forgetful()), target)


@pytest.mark.parametrize(
    ("record", "names"), [(Usage, thread_usage._COUNTED), (Digest, DIGEST_COUNTS)]
)
def test_figures_that_collectors_pass_by_name_are_recorded(
    record: type[Document], names: Sequence[str]
) -> None:
    assert set(names) <= record.model_fields.keys()


def test_a_defect_of_an_observer_is_not_hidden(target: Target) -> None:
    observer = Recorded({"begin": ZeroDivisionError()})
    with pytest.raises(ZeroDivisionError):
        collected(maker(observer), target)
    assert observer.asked[-1] == "close"
