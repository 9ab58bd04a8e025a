"""What the server used between two marks of the load generator: CPU time and buffer pool reads;
and what it still had to do at them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.databases.base import PoolStatus, Storage
from millrace.databases.client import QUERY_LIMIT_S, ServerClient, Session
from millrace.errors import DatabaseError, TrialFailed
from millrace.host.cpu_clock import CpuTime, cpu_between
from millrace.model import measurements as names
from millrace.store.records import MeasurementRecord

_BEGIN, _END = "measure_started", "measure_ended"


class Counters:
    """Reads a server's counters at the marks that begin and end the measured part.

    ``pool`` is the buffer pool at these marks; ``processes`` is None for a server that cannot be
    seen. The session is opened beforehand, so that nothing but some short queries comes into the
    measured part.
    """

    def __init__(
        self, session: Session, processes: ServerProcesses | None, storage: Storage
    ) -> None:
        self._session = session
        self._processes = processes
        self._storage = storage
        self.pool: list[PoolStatus] = []
        self._cpu: list[CpuTime] = []
        self._states: list[Mapping[str, int]] = []
        self._began_s = 0.0
        self._lost: Exception | None = None

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator."""
        if event["type"] != "mark" or event["mark"] not in (_BEGIN, _END):
            return
        if event["mark"] == _BEGIN:
            self._began_s = time.monotonic()
        try:
            if self._processes is not None:
                self._cpu.append(self._processes.cpu_time())
            counters = self._storage.counters(self._session)
        except (OSError, DatabaseError) as error:
            # Where the server is gone, the load generator is about to say so, and better.
            self._lost = error
            return
        self.pool.append(counters.pool)
        self._states.append(counters.state)

    def state(self) -> dict[str, Any]:
        """What the server still had to do at both marks (``begin``, ``end``), and how long ago the
        first was; empty where one of them did not come."""
        if len(self._states) != 2:
            return {}
        begin, end = map(dict, self._states)
        return {"begin": begin, "end": end, "since_begin_s": time.monotonic() - self._began_s}

    def measurements(self) -> Iterator[MeasurementRecord]:
        """What both marks yielded. Raises TrialFailed where the server did not tell."""
        if self._lost is not None or len(self.pool) != 2:
            raise TrialFailed(f"the server's counters could not be read: {self._lost}")
        if self._cpu:
            user_s, system_s = cpu_between(*self._cpu)
            yield MeasurementRecord(names.SERVER_USER_S, user_s)
            yield MeasurementRecord(names.SERVER_SYSTEM_S, system_s)
        before, after = self.pool
        yield MeasurementRecord(names.BUFFER_POOL_READS, after.reads - before.reads)
        requests = after.read_requests - before.read_requests
        yield MeasurementRecord(names.BUFFER_POOL_READ_REQUESTS, requests)


@contextlib.contextmanager
def counters_of(client: ServerClient) -> Iterator[Counters]:
    """Give counters with a session of their own, closed at the end."""
    with contextlib.closing(client.connect(limit_s=QUERY_LIMIT_S)) as session:
        yield Counters(session, processes_of(client), client.family.storage)
