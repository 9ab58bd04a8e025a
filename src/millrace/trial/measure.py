"""Measure: run the measured phases of a trial, with everything that hooks do around them."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from millrace.databases.client import QUERY_LIMIT_S
from millrace.loadgen.events import DriveInterval, DriveResult, Event, LoadResult, Mark
from millrace.loadgen.spec import LoadSpec
from millrace.model import measurements as names
from millrace.store.records import NewArtefact, StepRecord
from millrace.trial import (
    collection,
    cpu_idle_hook,
    edge_readings,
    fault_injection,
    file_removal,
    measurements,
    phase_spec,
    thread_placement,
)
from millrace.trial.data_file import sync_and_cache
from millrace.trial.hooks import MeasurementContext, MeasurementHook, OpenHooks
from millrace.trial.load_run import Emit, OnEvent, run_load
from millrace.trial.outputs import TrialOutputs
from millrace.trial.replication import ReplicatedLoad
from millrace.trial.spec import TrialSpec
from millrace.workloads.statement_effects import sure_rows


class _Series(MeasurementHook):
    """The intervals of the drive phase, its marks in between, and its figures at the end."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def on_event(self, event: Event) -> None:
        match event:
            case Mark(mark="phase_started"):
                pass  # of phases of all kinds, while the series belongs to the one that drives
            case Mark() | DriveInterval():
                self._lines.append(json.dumps(event.to_json()))
            case DriveResult():
                self._lines.append(json.dumps(event.figures()))

    def keep(self, outputs: TrialOutputs, role: str) -> None:
        if self._lines:
            lines = "".join(f"{line}\n" for line in self._lines)
            outputs.artefacts.append(NewArtefact("series", role, lines.encode()))


def _series_hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that keeps the clients' seconds as JSON lines, also after a failure."""
    series = _Series()
    opened.callback(series.keep, measurement.outputs, measurement.servers[0].role)
    yield series


HOOKS: tuple[OpenHooks, ...] = (
    edge_readings.host_time_hooks,
    fault_injection.hooks,
    edge_readings.cpu_hooks,
    edge_readings.counter_hooks,
    _series_hooks,
    thread_placement.hooks,
    file_removal.hooks,
    collection.hooks,
    cpu_idle_hook.hooks,
)
"""The hooks of a measurement, in the order in which they act; when the load ends, in reverse.

The collectors' queries come after the counters are read. CPUs are kept awake for the load alone.
"""


def measure(
    measurement: MeasurementContext, emit: Emit, load_limit_s: float
) -> Sequence[StepRecord]:
    """Run the measured phases and keep their results, also those until a failure.

    ``load_limit_s`` limits the load generator alone. A load runs again for a hook that saw too
    little of it; nothing else of that is kept. Raise TrialFailed where the measurement does not
    count.
    """
    spec = measurement.spec
    deadline = time.monotonic() + load_limit_s
    with ExitStack() as opened:
        hooks = [hook for open_hooks in HOOKS for hook in open_hooks(measurement, opened)]
        run = partial(_run, measurement, emit, load_limit_s)
        result = run_with_hooks(hooks, measurement.load_spec, run)
        _keep_trimmed(spec, result, measurement.outputs)
        if not (spec.workload.drives or spec.workload.checked.replicates):
            _repeat(measurement, hooks, emit, deadline)
        return conclude(measurement, hooks, result)


def run_with_hooks(
    hooks: Sequence[MeasurementHook],
    load_spec: LoadSpec,
    run: Callable[[LoadSpec, OnEvent], LoadResult],
) -> LoadResult:
    """Run a load with hooks around it, which adjust it first, and return its result."""

    def on_event(event: Event) -> None:
        for hook in hooks:
            hook.on_event(event)

    for hook in hooks:
        load_spec = hook.adjust(load_spec)
    for hook in hooks:
        hook.before()
    result = run(load_spec, on_event)
    for hook in reversed(hooks):
        hook.ended()
    return result


def _keep_trimmed(spec: TrialSpec, result: LoadResult, outputs: TrialOutputs) -> None:
    """Keep the whole time of an interleaved trial in a run that has slices, as its trimmed time."""
    for phase in result.phases:
        name = names.trimmed_s(phase.name)
        if any(name in metric.denominator for metric in spec.workload.checked.metrics.values()):
            outputs.add_measurement(name, phase.duration_s)


def conclude(
    measurement: MeasurementContext, hooks: Sequence[MeasurementHook], result: LoadResult
) -> Sequence[StepRecord]:
    """Keep a result and return its steps. Raise TrialFailed where it does not count."""
    spec, outputs = measurement.spec, measurement.outputs
    for hook in hooks:
        hook.contribute(result)
    if spec.expected is not None:
        measurements.verify(spec.workload.checked, result, spec.expected)
        outputs.measurements.extend(measurements.data_measurements(spec.expected))
    _keep(result, outputs)
    measurements.refuse_partial(result)
    measurements.refuse_idle(result)
    measurements.refuse_missed_rates(result)
    measurements.refuse_no_rows(sure_rows(spec.workload.definition, spec.workload.values), result)
    for hook in hooks:
        hook.verify(result)
    return measurements.step_records(result)


def _run(
    measurement: MeasurementContext,
    emit: Emit,
    load_limit_s: float,
    load_spec: LoadSpec,
    on_event: OnEvent,
) -> LoadResult:
    def keep_partial(result: LoadResult) -> None:
        # A failed trial enters no statistic, but its clients' work until then can be inspected.
        if result.driven() is not None:
            _keep(result, measurement.outputs)

    workload = measurement.spec.workload
    run_source = partial(
        run_load, load_spec, measurement.check, emit, load_limit_s,
        drives=workload.drives, keep_partial=keep_partial,
    )  # fmt: skip
    if workload.checked.replicates:
        return ReplicatedLoad(measurement, on_event, emit).run(run_source)
    return run_source(on_event)


def _keep(result: LoadResult, outputs: TrialOutputs) -> None:
    outputs.measurements.extend(measurements.measurements(result))
    outputs.histograms.extend(measurements.histograms(result))


def _repeat(
    measurement: MeasurementContext, hooks: Sequence[MeasurementHook], emit: Emit, deadline: float
) -> None:
    """Run the load again, on an empty database, until every hook has seen enough of it."""
    workload, server = measurement.spec.workload, measurement.servers[0]
    administration = server.client.family.administration
    phases = collection.until_measured(workload)
    load_spec = phase_spec.load_spec(
        phases, workload, server.dialect, server.measured_connection, server.data_file
    )

    def on_event(event: Event) -> None:
        for hook in hooks:
            hook.on_repeated_event(event)

    while any(hook.wants_repetition for hook in hooks):
        administration.drop_database(server.client, server.database, QUERY_LIMIT_S)
        administration.create_database(server.client, server.database, QUERY_LIMIT_S)
        sync_and_cache(server.data_file)
        run_load(load_spec, measurement.check, emit, deadline - time.monotonic(), on_event)
