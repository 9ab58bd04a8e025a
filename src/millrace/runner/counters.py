"""What the server used between two marks of the load generator: CPU time and buffer pool reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.errors import TrialFailed
from millrace.observe.cpu_clock import CpuTime, cpu_between, cpu_time
from millrace.runner.residency import PoolStatus, pool_status_in
from millrace.servers.asking import ASK_LIMIT_S
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import Instance
from millrace.store.records import MeasurementRecord

_BEGIN, _END = "measure_started", "measure_ended"

_STATUS_SQL = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read%'"


class Counters:
    """Reads a server's counters at the marks that begin and end the measured part.

    ``pool`` is the buffer pool at these marks; ``pid`` is None for a server whose process cannot be
    seen. The session is opened beforehand, so that nothing but two short questions comes into the
    measured part.
    """

    def __init__(self, session: Connection[Any], pid: int | None) -> None:
        self._session = session
        self._pid = pid
        self.pool: list[PoolStatus] = []
        self._cpu: list[CpuTime] = []
        self._lost: Exception | None = None

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator."""
        if event["type"] != "mark" or event["mark"] not in (_BEGIN, _END):
            return
        try:
            if self._pid is not None:
                self._cpu.append(cpu_time(self._pid))
            self.pool.append(self._ask())
        except (OSError, pymysql.MySQLError) as error:
            # Where the server is gone, the load generator is about to say so, and better.
            self._lost = error

    def _ask(self) -> PoolStatus:
        with self._session.cursor() as cursor:
            cursor.execute(_STATUS_SQL)
            return pool_status_in({str(name): int(value) for name, value in cursor.fetchall()})

    def measurements(self) -> Iterator[MeasurementRecord]:
        """What both marks yielded. Raises TrialFailed where the server did not tell."""
        if self._lost is not None or len(self.pool) != 2:
            raise TrialFailed(f"the server's counters could not be read: {self._lost}")
        if self._cpu:
            user_s, system_s = cpu_between(*self._cpu)
            yield MeasurementRecord("server_user_s", user_s)
            yield MeasurementRecord("server_system_s", system_s)
        before, after = self.pool
        yield MeasurementRecord("buffer_pool_reads", after.reads - before.reads)
        requests = after.read_requests - before.read_requests
        yield MeasurementRecord("buffer_pool_read_requests", requests)


@contextlib.contextmanager
def counters_of(instance: Instance | AttachedInstance) -> Iterator[Counters]:
    """Counters with a session of their own, closed at the end."""
    pid = instance.pid if isinstance(instance, Instance) else None
    with contextlib.closing(instance.connect(limit_s=ASK_LIMIT_S)) as session:
        yield Counters(session, pid)
