"""What the server used between two marks of the load generator: CPU time and buffer pool reads;
and what it still had to do at them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.databases.base import WriteBack
from millrace.databases.mysql.client import ASK_LIMIT_S, count_of, oddities_as_errors
from millrace.errors import TrialFailed
from millrace.host.cpu_clock import CpuTime, cpu_between, cpu_time
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.lifecycle import Instance
from millrace.store.records import MeasurementRecord
from millrace.trial import server_state
from millrace.trial.buffer_pool import PoolStatus, pool_status_in

_BEGIN, _END = "measure_started", "measure_ended"

_STATUS_SQL = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_%'"


class Counters:
    """Reads a server's counters at the marks that begin and end the measured part.

    ``pool`` is the buffer pool at these marks; ``pid`` is None for a server whose process cannot be
    seen. The session is opened beforehand, so that nothing but four short questions comes into the
    measured part, two at each end.
    """

    def __init__(self, session: Connection[Any], pid: int | None, write_back: WriteBack) -> None:
        self._session = session
        self._pid = pid
        self._write_back = write_back
        self.pool: list[PoolStatus] = []
        self._cpu: list[CpuTime] = []
        self._figures: list[dict[str, int]] = []
        self._began_s = 0.0
        self._lost: Exception | None = None

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator."""
        if event["type"] != "mark" or event["mark"] not in (_BEGIN, _END):
            return
        if event["mark"] == _BEGIN:
            self._began_s = time.monotonic()
        try:
            if self._pid is not None:
                self._cpu.append(cpu_time(self._pid))
            status = self._ask()
        except (OSError, pymysql.MySQLError) as error:
            # Where the server is gone, the load generator is about to say so, and better.
            self._lost = error
            return
        self.pool.append(pool_status_in(status))
        told = server_state.figures(self._session, self._write_back)
        self._figures.append({**server_state.pool_figures(status), **told})

    def _ask(self) -> dict[str, int]:
        with oddities_as_errors(), self._session.cursor() as cursor:
            cursor.execute(_STATUS_SQL)
            return {
                str(name): count_of(value)
                for name, value in cursor.fetchall()
                if str(value).isdecimal()
            }

    def state(self) -> dict[str, Any]:
        """What the server still had to do at both marks (``begin``, ``end``), and how long ago the
        first was; empty where one of them did not come."""
        if len(self._figures) != 2:
            return {}
        begin, end = self._figures
        return {"begin": begin, "end": end, "since_begin_s": time.monotonic() - self._began_s}

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
        yield Counters(session, pid, server_state.write_back_of(instance))
