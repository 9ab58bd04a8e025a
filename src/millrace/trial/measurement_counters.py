"""Read a server's counters at both edges of the measured part, and require its cache mode."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress

from millrace.collect.collectors import Edge
from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.databases.base import PoolStatus
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.host.cpu_clock import CpuTime, cpu_between
from millrace.loadgen.events import LoadResult
from millrace.model import measurements as names
from millrace.trial import buffer_pool
from millrace.trial.hooks import LiveServer, MeasurementContext, MeasurementHook, WindowHook


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for each driven server, with a session opened before the measured part."""
    if measurement.spec.workload.drives:
        for server in measurement.servers:
            session = opened.enter_context(closing(server.client.connect(limit_s=QUERY_LIMIT_S)))
            yield ServerReadings(measurement, server, session)


def cpu_hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for each driven server whose processes millrace may read."""
    for server in measurement.servers if measurement.spec.workload.drives else ():
        processes = processes_of(server.client)
        if processes is not None:
            yield ServerCpu(measurement, server.role, processes)


class ServerCpu(WindowHook):
    """Read one server's CPU time at both edges."""

    def __init__(
        self, measurement: MeasurementContext, role: str, processes: ServerProcesses
    ) -> None:
        super().__init__(measurement)
        self._role = role
        self._processes = processes
        self._cpu: list[CpuTime] = []

    def at_edge(self, edge: Edge) -> None:
        # Where the server is gone, the load generator is about to report it, with more detail.
        with suppress(OSError):
            self._cpu.append(self._processes.cpu_time())

    def contribute(self, result: LoadResult) -> None:
        if len(self._cpu) == 2:
            user_s, system_s = cpu_between(*self._cpu)
            outputs = self._measurement.outputs
            outputs.add_measurement(names.SERVER_USER_S, user_s, self._role)
            outputs.add_measurement(names.SERVER_SYSTEM_S, system_s, self._role)


def read_hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for each server whose processes millrace may read."""
    for server in measurement.servers:
        processes = processes_of(server.client)
        if processes is not None:
            yield ServerReads(measurement, server.role, processes)


class ServerReads(WindowHook):
    """Read at both edges how much one server had read from the disk, where millrace may know."""

    def __init__(
        self, measurement: MeasurementContext, role: str, processes: ServerProcesses
    ) -> None:
        super().__init__(measurement)
        self._role = role
        self._processes = processes
        self._bytes: list[int] = []

    def at_edge(self, edge: Edge) -> None:
        with suppress(OSError):
            self._bytes.append(self._processes.read_bytes())

    def contribute(self, result: LoadResult) -> None:
        if len(self._bytes) == 2:
            before, after = self._bytes
            outputs = self._measurement.outputs
            outputs.add_measurement(names.SERVER_READ_BYTES, after - before, self._role)


class ServerReadings(WindowHook):
    """Read one server's counters at both edges."""

    def __init__(
        self, measurement: MeasurementContext, server: LiveServer, session: Session
    ) -> None:
        super().__init__(measurement)
        self._server = server
        self._session = session
        self._pool: list[PoolStatus] = []
        self._states: list[Mapping[str, int]] = []
        self._began_s = 0.0
        self._lost: Exception | None = None

    def at_edge(self, edge: Edge) -> None:
        if edge == "begin":
            self._began_s = time.monotonic()
        try:
            state = self._server.client.family.storage.read_state(self._session)
        except (OSError, DatabaseError) as error:
            # Where the server is gone, the load generator is about to report it, with more detail.
            self._lost = error
            return
        self._pool.append(state.pool)
        self._states.append(state.figures)

    def contribute(self, result: LoadResult) -> None:
        outputs, role = self._measurement.outputs, self._server.role
        if len(self._states) == 2:
            client = self._server.client
            begin, end = map(dict, self._states)
            since_begin_s = time.monotonic() - self._began_s
            later = client.family.storage.state_afterwards(client, self._server.database)
            state = {"begin": begin, "end": end, "since_begin_s": since_begin_s}
            outputs.add_facts(role, state=state | later.to_json())
        if self._lost is not None or len(self._pool) != 2:
            return
        before, after = self._pool
        reads, requests = after.reads - before.reads, after.read_requests - before.read_requests
        outputs.add_measurement(names.BUFFER_POOL_READS, reads, role)
        outputs.add_measurement(names.BUFFER_POOL_READ_REQUESTS, requests, role)

    def verify(self, result: LoadResult) -> None:
        if self._lost is not None or len(self._pool) != 2:
            raise TrialFailed(f"the server's counters could not be read: {self._lost}")
        found = buffer_pool.cache_mode(self._server.tables, *self._pool)
        self._measurement.outputs.add_facts(
            self._server.role, residency=found.mode, residency_why=found.reason
        )
        requested = self._measurement.spec.workload.values["cache_mode"]
        buffer_pool.require_mode(requested, found, self._server.client.family.storage.pool_option)
