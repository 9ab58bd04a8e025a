"""Run the collectors of a trial over the measured part, one set for each of its servers."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from millrace.collect import thread_states
from millrace.collect.collectors import CollectorSet, Window, collecting
from millrace.collect.model import Target
from millrace.collect.registry import COLLECTORS
from millrace.databases.base import ServerClient
from millrace.databases.client import QUERY_LIMIT_S
from millrace.loadgen import client as load_generator
from millrace.loadgen.events import Event, LoadResult
from millrace.loadgen.spec import Drive, LoadSpec
from millrace.loadgen.statement_activity import StatementActivity
from millrace.model.roles import REPLICA
from millrace.servers.instances.instance import Instance
from millrace.trial.hooks import MeasurementContext, MeasurementHook, adjust_drives
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads import Phase

RESULT_LIMIT_S = 300.0  # resolving the symbols of a profile takes longest


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook of the collectors of each server."""
    spec, workload = measurement.spec, measurement.spec.workload
    statements: Mapping[str, str] = {}
    activity = None
    if workload.drives and spec.collectors:
        statements = load_generator.statements(measurement.load_spec)
        if thread_states.NAME in spec.collectors:
            activity = _activity(measurement.load_spec, opened)
    for server in measurement.servers:
        is_replica = server.role == REPLICA  # to which clients send no statements
        target = replace(
            target_of(server.client, server.database),
            statements={} if is_replica else statements,
            statement_activity=None if is_replica else activity,
            connections=workload.connections or 1,
            servers=1 + len(measurement.load_spec.against),
            is_replica=is_replica,
            background_clients=bool(workload.background_clients),
        )
        collectors = opened.enter_context(
            collecting(COLLECTORS, spec.collectors, target, measurement.window)
        )
        yield _Collection(measurement, server.role, collectors, target.statement_activity)


def _activity(load_spec: LoadSpec, opened: ExitStack) -> StatementActivity:
    """Return the activity of the clients, which those of a round's servers share."""
    drives = (phase for phase in load_spec.phases if isinstance(phase, Drive))
    path = next((each.statement_activity for each in drives), None)
    if path is not None:
        return StatementActivity(path)
    return opened.enter_context(StatementActivity.create())


@dataclass(frozen=True)
class _Collection(MeasurementHook):
    _measurement: MeasurementContext
    _role: str
    _collectors: CollectorSet
    _activity: StatementActivity | None

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        if self._activity is None:
            return load_spec
        path = self._activity.path
        return adjust_drives(load_spec, lambda drive: replace(drive, statement_activity=path))

    def on_event(self, event: Event) -> None:
        self._collectors.on_event(event)

    @property
    def wants_repetition(self) -> bool:
        return self._collectors.wants_more

    def on_repeated_event(self, event: Event) -> None:
        self._collectors.on_repeated_event(event)

    def contribute(self, result: LoadResult) -> None:
        self._measurement.outputs.observations[self._role] = self._collectors.document()


def target_of(client: ServerClient, database: str) -> Target:
    """Return a trial's server as its collectors observe it, without statements."""
    managed = client if isinstance(client, Instance) else None
    return Target(
        client=client,
        pid=None if managed is None else managed.pid,
        data_dir=None if managed is None else managed.data_dir,
        database=database,
        statements={},
        limit_s=QUERY_LIMIT_S,
    )


def window(workload: ResolvedWorkload) -> Window:
    """Return the measured part: a replica's, driven clients, or the primary metric's phases."""
    if (apply := workload.apply_phase) is not None:
        return Window(apply.name, apply.name, drives=False)
    timed = set(workload.checked.measured.timed)
    names = [phase.name for phase in workload.measuring_phases if phase.name in timed]
    return Window(names[0], names[-1], drives=workload.drives)


def until_measured(workload: ResolvedWorkload) -> tuple[Phase, ...]:
    """Return the phases up to the end of the measured part; later ones only check the tables."""
    names = [phase.name for phase in workload.measuring_phases]
    return workload.measuring_phases[: names.index(window(workload).last) + 1]
