"""Read a server's counters at both edges of the measured part, and require its cache mode."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing

from millrace.collect.collectors import Edge
from millrace.databases.base import PoolStatus
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import DatabaseError, TrialFailed
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
        workload = self._measurement.spec.workload
        requested = workload.client_settings.cache_mode
        if requested == "cached" and workload.defines_tables:
            return  # a server reads back pages that it has just made, as its algorithm wants it
        buffer_pool.require_mode(requested, found, self._server.client.family.storage.pool_option)
