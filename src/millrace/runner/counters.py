"""What the server used between two marks of the load generator: CPU time and buffer pool reads."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.errors import TrialFailed
from millrace.runner.residency import PoolStatus, pool_status_in
from millrace.servers.asking import ASK_LIMIT_S
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import Instance
from millrace.store.records import MeasurementRecord

_BEGIN, _END = "measure_started", "measure_ended"

_STATUS_SQL = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read%'"


_ALL_THREADS = 2  # CPUCLOCK_SCHED: what a process ran, counted in nanoseconds


@dataclass(frozen=True)
class CpuTime:
    """CPU time of a process since it began, with that of threads that have ended: in ticks of the
    clock that user and system time are told in, and in nanoseconds altogether."""

    user_s: float
    system_s: float
    total_ns: int


def cpu_time(pid: int) -> CpuTime:
    """The CPU time of a process until now. Raises OSError when it is gone."""
    # The name in parentheses may hold anything; fields 14 and 15 are the times.
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    # The number that clock_getcpuclockid(3) gives, which Python does not have.
    total_ns = time.clock_gettime_ns((~pid << 3) | _ALL_THREADS)
    return CpuTime(int(fields[11]) * tick_s, int(fields[12]) * tick_s, total_ns)


def cpu_between(before: CpuTime, after: CpuTime) -> tuple[float, float]:
    """User and system seconds between two readings of one process: nanoseconds say how many, ticks
    (10 ms) of which kind; less than a tick is user time."""
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    ticked_s = user_s + system_s
    total_s = (after.total_ns - before.total_ns) / 1e9
    if not ticked_s:
        return total_s, 0.0
    return total_s * user_s / ticked_s, total_s * system_s / ticked_s


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
