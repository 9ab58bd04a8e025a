"""Define hooks: what millrace does around a measurement, each in one place.

``measure.HOOKS`` lists the functions that open them. A hook may adjust the load generator's
specification, act right before the load starts, follow the load generator's events, act as soon as
it has ended, contribute facts and measurements, and refuse the measurement.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from millrace.collect.collectors import Edge, Window
from millrace.databases.base import LoadDialect, ServerClient, TableSize
from millrace.errors import DatabaseError
from millrace.loadgen.events import Event, LoadResult
from millrace.loadgen.spec import Connection, Drive, LoadSpec
from millrace.trial.outputs import TrialOutputs
from millrace.trial.spec import TrialSpec

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class LiveServer:
    """A running server of a trial."""

    role: str
    client: ServerClient
    database: str
    connection: Connection  # the shortest way to it
    measured_connection: Connection  # the one that the workload asks for
    check: Callable[[], None]  # raises TrialFailed where it knows why it is in trouble
    data_file: Path | None = None  # that it may read
    tables: tuple[TableSize, ...] = ()  # once they are loaded

    @property
    def dialect(self) -> LoadDialect:
        """The SQL of the load generator's sessions with the server."""
        return self.client.family.load_dialect


@dataclass(frozen=True)
class MeasurementContext:
    """A measurement that is about to start, as its hooks receive it."""

    spec: TrialSpec
    servers: tuple[LiveServer, ...]  # the load generator drives the first
    load_spec: LoadSpec
    window: Window  # the part that counts
    outputs: TrialOutputs

    def check(self) -> None:
        """Raise TrialFailed where a server itself knows why it is in trouble."""
        for server in self.servers:
            server.check()


class MeasurementHook:
    """Something done around a measurement; each method does nothing unless overridden."""

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        """Return the load generator's specification with this hook's changes."""
        return load_spec

    def before(self) -> None:
        """Act right before the load generator starts."""

    def on_event(self, event: Event) -> None:
        """Handle an event of the load generator, within milliseconds."""

    def ended(self) -> None:
        """Act as soon as the load generator has ended without an error."""

    @property
    def wants_repetition(self) -> bool:
        """Return whether a load must run again because the hook saw too little of it."""
        return False

    def on_repeated_event(self, event: Event) -> None:
        """Handle an event of a repeated load."""

    def contribute(self, result: LoadResult) -> None:
        """Add facts, measurements and observations to the trial's outputs."""

    def verify(self, result: LoadResult) -> None:
        """Raise TrialFailed where the measurement does not count."""


class WindowHook(MeasurementHook):
    """A hook that acts once at each edge of the measured part."""

    def __init__(self, measurement: MeasurementContext) -> None:
        self._measurement = measurement
        self._passed: set[Edge] = set()

    def on_event(self, event: Event) -> None:
        edge = self._measurement.window.edge(event)
        if edge is not None and edge not in self._passed:
            self._passed.add(edge)
            self.at_edge(edge)

    def at_edge(self, edge: Edge) -> None:
        """Act at the first event that marks an edge."""


class EdgeReadings(WindowHook, Generic[Reading]):
    """A hook that makes the same reading at both edges; ``failure`` is why one is missing."""

    def __init__(self, measurement: MeasurementContext) -> None:
        super().__init__(measurement)
        self._readings: list[Reading] = []
        self._failure: Exception | None = None

    def read(self) -> Reading:
        """Make a reading. Raise OSError or DatabaseError where the server is gone."""
        raise NotImplementedError

    def at_edge(self, edge: Edge) -> None:
        # Where the server is gone, the load generator is about to report it, with more detail.
        try:
            self._readings.append(self.read())
        except (OSError, DatabaseError) as error:
            self._failure = error

    @property
    def both(self) -> tuple[Reading, Reading] | None:
        """The readings at the begin and at the end; None where one is missing."""
        return (self._readings[0], self._readings[1]) if len(self._readings) == 2 else None


OpenHooks = Callable[[MeasurementContext, ExitStack], Iterable[MeasurementHook]]
"""Open the hooks of a measurement, none where it needs none; they close with the stack."""


def adjust_drives(load_spec: LoadSpec, change: Callable[[Drive], Drive]) -> LoadSpec:
    """Return a specification with changed drive phases."""
    phases = (change(each) if isinstance(each, Drive) else each for each in load_spec.phases)
    return replace(load_spec, phases=tuple(phases))
