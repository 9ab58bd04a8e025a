"""What a trial is given, what it finds, and the part that all kinds of servers share: measuring."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from millrace import databases
from millrace.databases.client import QUERY_LIMIT_S, ServerClient
from millrace.errors import TrialFailed
from millrace.experiment.slowdown import Slowdown
from millrace.host.cpuset import CpuPartition
from millrace.loadgen import client as load
from millrace.loadgen.spec import Connection, Drive, RunSpec
from millrace.model.events import IntervalEnded, TrialEvent
from millrace.model.instance_facts import InstanceFacts
from millrace.model.servers import FittedOptions, LeftOut, Option, Server, as_data
from millrace.store.records import (
    HistogramRecord,
    InstanceRecord,
    MeasurementRecord,
    OptionRecord,
    ServerRecord,
    StepRecord,
)
from millrace.trial import cpu_idle, fault_injection, phase_spec, time_limits
from millrace.trial import measurements as yields
from millrace.trial.barrier import BEGIN, END, Measured, Meet, alone
from millrace.trial.client_preparation import ClientPreparation, RunPhases, note
from millrace.trial.collection import (
    TELL_LIMIT_S,
    board,
    observed,
    target_of,
    until_measured,
    window,
)
from millrace.trial.cpu_idle import Control
from millrace.trial.host_time import HostTime
from millrace.trial.measurement_counters import counters_of
from millrace.trial.resolved_workload import DataFile, ResolvedWorkload
from millrace.trial.steps import Step
from millrace.trial.thread_placement import Placement
from millrace.workloads.sure_rows import sure_rows

SETTLE_LIMIT_S = 600.0
_ANALYSE_LIMIT_S = 600.0
_PARTIAL_LIMIT_S = 10.0
STOP_LIMIT_S = 600.0  # a clean stop writes every dirty page

Announce = Callable[[TrialEvent], None]
See = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class TrialSpec:
    """All that a trial needs: decided before it starts, the same for every trial of a treatment.

    ``name`` is the trial's id in the store, ``expected`` what a named data set holds, ``data_file``
    None unless the server reads one. ``observers`` are those that look on while it measures,
    ``slowdown`` is what is done to the server then. ``half`` are the CPUs of one that is measured
    at the same time as another, None where it has all. ``stops_cleanly`` says whether the server is
    stopped in the end and its files are measured; if not, it is killed, which takes seconds less.
    """

    name: str
    server: Server
    options: FittedOptions
    work: ResolvedWorkload
    expected: load.DataChecksum | None
    data_file: DataFile | None
    control: Control | None = None
    observers: tuple[str, ...] = ()
    slowdown: Slowdown | None = None
    half: CpuPartition | None = None
    stops_cleanly: bool = True


@dataclass
class Found:
    """What a trial has found so far; it is kept when a later step fails."""

    instances: list[InstanceRecord] = field(default_factory=list)
    measurements: list[MeasurementRecord] = field(default_factory=list)
    histograms: list[HistogramRecord] = field(default_factory=list)
    artefacts: list[tuple[str, str, bytes]] = field(default_factory=list)
    observations: Mapping[str, Any] = field(default_factory=dict)
    log_tail: Callable[[], str | None] = lambda: None
    log: Callable[[], bytes | None] = lambda: None


def write_back(data_file: DataFile | None) -> None:
    """Write back what is dirty, and have a data file in the page cache, so that every trial starts
    from the same state."""
    os.sync()
    if data_file is not None:
        with data_file.path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


@dataclass(frozen=True)
class Listener:
    """Who is told what goes on while the load generator works.

    ``watch`` raises TrialFailed when the server itself knows why it is in trouble.
    """

    announce: Announce
    watch: Callable[[], None]

    def hear(self, event: Mapping[str, Any]) -> None:
        """An event of the load generator; the server is looked at each time."""
        if event["type"] == "interval":
            self.announce(
                IntervalEnded(
                    phase=event["phase"],
                    t_s=event["t_s"],
                    rows=event["rows"],
                    kind=event.get("kind"),
                    part=event.get("part"),
                )
            )
        self.watch()


def run_phases(
    run_spec: RunSpec, listener: Listener, limit_s: float, see: See | None = None
) -> load.LoadResult:
    """Carry out phases that are not measured; ``see`` gets their events first."""

    def hear(event: Mapping[str, Any]) -> None:
        if see is not None:
            see(event)
        listener.hear(event)

    try:
        return load.run(run_spec, on_event=hear, limit_s=limit_s)
    except TrialFailed:
        _let_the_server_explain(listener.watch)
        raise


def make_steps(
    work: ResolvedWorkload,
    instance: ServerClient,
    database: str,
    run: RunPhases,
    tell: Callable[[Mapping[str, Any]], None],
) -> tuple[Step, ...]:
    """The steps that make the tables that clients are driven on, recorded as their phases. ``tell``
    gets the facts about how they were loaded."""
    if not work.making:
        return ()

    def make(limit_s: float) -> Sequence[StepRecord]:
        result = run(work.making, limit_s)
        tell(yields.loading_facts(result))
        return yields.step_records(result)

    return (
        Step("make", make, time_limits.limit_s(work.making, work)),
        Step("analyse", lambda limit_s: _analyse(instance, database, limit_s), _ANALYSE_LIMIT_S),
    )


def _analyse(instance: ServerClient, database: str, limit_s: float) -> None:
    """Have the server look at the tables it has just loaded.

    Each version does it by itself some time, seconds or a restart later, and until then chooses its
    plans by the statistics of an empty table.
    """
    instance.family.administration.analyze_tables(instance, database, limit_s)


def limit_s(work: ResolvedWorkload) -> float:
    """What measuring may take, with the time that observers take to tell what they found."""
    return time_limits.limit_s(work.measuring, work) + TELL_LIMIT_S


def measure(
    given: TrialSpec,
    connection: Connection,
    found: Found,
    *,
    instance: ServerClient,
    database: str,
    listener: Listener,
    driving: ClientPreparation | None,
    limit_s: float,
    data_file: DataFile | None = None,
    meet: Meet = alone,
) -> Sequence[StepRecord]:
    """Carry out the phases that are measured, and keep what they yielded, also when they could not
    go on. Observers look on, and while clients are driven the server's counters are read. Loads are
    repeated for an observer that saw too little of them, of which nothing else is kept. ``meet``
    has it begin and end with another trial."""
    work = given.work
    deadline = time.monotonic() + limit_s - TELL_LIMIT_S
    with ExitStack() as opened:
        shown = opened.enter_context(board(given.observers, work))
        run_spec = phase_spec.spec(
            work.measuring, work, connection, data_file, given.control,
            board=None if shown is None else shown.path,
        )  # fmt: skip
        counters = None
        if driving is not None:
            counters = opened.enter_context(counters_of(driving.instance))
        collector = opened.enter_context(
            observed(
                given.observers,
                work,
                instance,
                database,
                run_spec,
                shown=shown,
                is_side=given.half is not None,
            )
        )
        placed = _placed(given.control, instance, database)
        slowed = opened.enter_context(
            fault_injection.in_force(given.slowdown, instance, window(work))
        )
        measured = Measured(window(work))
        host_time = HostTime(window(work), None if given.half is None else given.half.cpus)
        with cpu_idle.in_force(given.control) as awake:
            watchers = [
                host_time.see,
                measured.see,
                *(each.see for each in (slowed, counters) if each is not None),
                *placed,
                collector.on_event,
            ]
            meet(BEGIN)
            result = _measured(run_spec, found, listener, watchers, limit_s=limit_s - TELL_LIMIT_S)
            meet(END)
            if not work.workload.drives:
                again = phase_spec.spec(until_measured(work), work, connection, data_file)
                while collector.wants_more:
                    _make_empty(instance, database)
                    write_back(data_file)
                    run_phases(
                        again, listener, deadline - time.monotonic(), collector.on_repeated_event
                    )
        found.observations = collector.document()
    note(found.instances, host_time.fact())
    if given.control is not None:
        note(found.instances, cpu_idle.told(given.control, awake, result.driven()))
    if given.half is not None:
        note(found.instances, measured.fact(given.half))
    if given.expected is not None:
        yields.verify(work.workload, result, given.expected)
        found.measurements.extend(yields.data_measurements(given.expected))
    if counters is not None and (state := counters.state()):
        note(
            found.instances,
            {"state": {**state, **instance.family.storage.state_afterwards(instance, database)}},
        )
    found.measurements.extend(yields.measurements(result))
    found.measurements.extend(() if slowed is None else slowed.measurements())
    found.histograms.extend(yields.histograms(result))
    _refuse_partial(result)
    yields.refuse_no_rows(sure_rows(work.definition, work.values), result)
    if driving is not None and counters is not None:
        found.measurements.extend(counters.measurements())
        driving.judge(*counters.pool)
    return yields.step_records(result)


def _make_empty(instance: ServerClient, database: str) -> None:
    """The trial's database as it was before anything was loaded."""
    administration = instance.family.administration
    administration.drop_database(instance, database, QUERY_LIMIT_S)
    administration.create_database(instance, database, QUERY_LIMIT_S)


def _placed(control: Control | None, instance: ServerClient, database: str) -> tuple[See, ...]:
    """What has the client share a CPU with the server's thread that serves it, where it is to."""
    if control is None or control.shared_cpu is None:
        return ()
    return (Placement(target_of(instance, database, {}), control.shared_cpu).see,)


def _refuse_partial(result: load.LoadResult) -> None:
    """Raise TrialFailed where the clients did less than they were to do: that is no measurement."""
    driven = result.driven()
    if driven is not None and driven.partial:
        raise TrialFailed(
            f"the clients ended early: {driven.partial_reason}",
            hint="where rows were used up, load more or ask for less (operations, time_s)",
        )


def _measured(
    run_spec: RunSpec,
    found: Found,
    listener: Listener,
    watchers: Sequence[See],
    *,
    limit_s: float,
) -> load.LoadResult:
    series: list[Mapping[str, Any]] = []
    drives = any(isinstance(phase, Drive) for phase in run_spec.phases)
    patience = _Patience(_PARTIAL_LIMIT_S if drives else 0.0)

    def hear(event: Mapping[str, Any]) -> None:
        for see in watchers:
            see(event)
        match event["type"], event.get("kind"):
            case ("mark", _) if event["mark"] == "phase_started":
                pass  # of phases of all kinds; the series is of the one that drives clients
            case ("mark", _) | ("interval", "drive"):
                series.append(event)
            case ("phase", "drive"):
                series.append(_figures(event))
        patience.listen(listener, event)

    try:
        result = load.run(run_spec, on_event=hear, limit_s=limit_s)
    except load.LoadFailed as failure:
        if failure.result is not None:
            _keep_partial(failure.result, found)
        patience.end()
        _let_the_server_explain(listener.watch)
        raise
    finally:
        _keep_series(series, found)
    try:
        patience.end()
    except TrialFailed:
        _keep_partial(result, found)
        raise
    return result


class _Patience:
    """Has a server's trouble wait, so long at most, until the load generator notices it too and
    says what its clients did until then."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._trouble: TrialFailed | None = None
        self._since_s = 0.0

    def listen(self, listener: Listener, event: Mapping[str, Any]) -> None:
        """Pass an event on. Raises the trouble that has waited for long enough."""
        try:
            listener.hear(event)
        except TrialFailed as trouble:
            if self._trouble is None:
                self._trouble, self._since_s = trouble, time.monotonic()
        if time.monotonic() - self._since_s >= self._limit_s:
            self.end()

    def end(self) -> None:
        """Raise the trouble that was met."""
        if self._trouble is not None:
            raise self._trouble


def _keep_partial(result: load.LoadResult, found: Found) -> None:
    """A failed trial enters no statistic; what clients did until then is kept to be looked at."""
    if result.driven() is not None:
        found.measurements.extend(yields.measurements(result))
        found.histograms.extend(yields.histograms(result))


def _keep_series(series: Sequence[Mapping[str, Any]], found: Found) -> None:
    """The drive phase second by second, as JSON lines, its marks in between, its figures last."""
    if series:
        lines = "".join(json.dumps(event) + "\n" for event in series)
        found.artefacts.append(("series", "server", lines.encode()))


def _figures(driven: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a drive phase, of whose latencies only the histograms are left out: these are
    kept by themselves."""
    lists = ("transactions", "statements")
    return {**driven, **{of: list(map(_without_histograms, driven[of])) for of in lists}}


def _without_histograms(record: Mapping[str, Any]) -> dict[str, Any]:
    latencies = {
        time: {key: value for key, value in record[time].items() if key != "encoded"}
        for time in ("service", "response")
        if record[time] is not None
    }
    return {**record, **latencies}


def _let_the_server_explain(watch: Callable[[], None]) -> None:
    """Raise what the server's own end or words say about a failure, which the client only sees as
    a lost connection; a process that was killed closes its sockets a moment before it is gone."""
    for _ in range(10):
        watch()
        time.sleep(0.1)


def instance_record(
    given: TrialSpec, version: str, effective: Mapping[str, str], facts: Mapping[str, Any]
) -> InstanceRecord:
    """The server as this trial saw it; ``version`` and ``effective`` are its own words."""
    server, fitted = given.server, given.options
    # An attached server's build is not known, only what it says: 10.11.19-MariaDB-0+deb12u1.
    known = getattr(server, "version", None) or version.split("-", 1)[0]
    load_1min = os.getloadavg()[0]
    return InstanceRecord(
        role="server",
        server=ServerRecord(
            name=server.name,
            family=server.family,
            version=known,
            version_reported=version,
            build=as_data(server),
            host_variables=tuple(sorted(databases.get(server.family).host_variables)),
        ),
        configuration=fitted.configuration,
        options=(
            *(_option_record(option) for option in fitted.applied),
            *(_option_record(left) for left in fitted.left_out),
        ),
        effective=effective,
        facts=InstanceFacts.model_validate(
            {
                **facts,
                **({} if given.control is None else cpu_idle.told(given.control)),
                "load_average_1min": load_1min,
            }
        ),
    )


def _option_record(asked: Option | LeftOut) -> OptionRecord:
    option, reason = (asked.option, asked.reason) if isinstance(asked, LeftOut) else (asked, None)
    return OptionRecord(option.name, option.value, option.layer, option.optional, left_out=reason)
