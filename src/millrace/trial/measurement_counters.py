"""Read a server's counters at both edges of the measured part, and require its cache mode."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from millrace.databases.base import StorageState
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import TrialFailed
from millrace.loadgen.events import LoadResult
from millrace.model import measurements as names
from millrace.trial import buffer_pool
from millrace.trial.hooks import EdgeReadings, LiveServer, MeasurementContext, MeasurementHook


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for each driven server, with a session opened before the measured part."""
    if measurement.spec.workload.drives:
        for server in measurement.servers:
            session = opened.enter_context(closing(server.client.connect(limit_s=QUERY_LIMIT_S)))
            yield ServerReadings(measurement, server, session)


class ServerReadings(EdgeReadings[tuple[float, StorageState]]):
    """Read one server's counters at both edges."""

    def __init__(
        self, measurement: MeasurementContext, server: LiveServer, session: Session
    ) -> None:
        super().__init__(measurement)
        self._server = server
        self._session = session

    def read(self) -> tuple[float, StorageState]:
        return time.monotonic(), self._server.client.family.storage.read_state(self._session)

    def contribute(self, result: LoadResult) -> None:
        outputs, role, client = self._measurement.outputs, self._server.role, self._server.client
        if self.both is None:
            return
        (began_s, begin), (_, end) = self.both
        state = {
            "begin": dict(begin.figures),
            "end": dict(end.figures),
            "since_begin_s": time.monotonic() - began_s,
        }
        later = client.family.storage.state_afterwards(client, self._server.database)
        outputs.add_facts(role, state=state | later.to_json())
        before, after = begin.pool, end.pool
        reads, requests = after.reads - before.reads, after.read_requests - before.read_requests
        outputs.add_measurement(names.BUFFER_POOL_READS, reads, role)
        outputs.add_measurement(names.BUFFER_POOL_READ_REQUESTS, requests, role)

    def verify(self, result: LoadResult) -> None:
        if self.both is None:
            raise TrialFailed(f"the server's counters could not be read: {self._failure}")
        before, after = (state.pool for _, state in self.both)
        found = buffer_pool.cache_mode(self._server.tables, before, after)
        self._measurement.outputs.add_facts(
            self._server.role, residency=found.mode, residency_why=found.reason
        )
        workload = self._measurement.spec.workload
        requested = workload.client_settings.cache_mode
        if requested == "cached" and workload.defines_tables:
            return  # a server reads back pages that it has just made, as its algorithm wants it
        buffer_pool.require_mode(requested, found, self._server.client.family.storage.pool_option)
