"""What the server used between two marks of the load generator: CPU time and buffer pool reads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.errors import TrialFailed
from millrace.runner.residency import PoolStatus, pool_status_in
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import Instance
from millrace.store.records import MeasurementRecord

_BEGIN, _END = "measure_started", "measure_ended"

_STATUS_SQL = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read%'"


@dataclass(frozen=True)
class CpuTime:
    """CPU time of a process since it began: in ticks of the clock that user and system time are
    told in, and in nanoseconds for each thread that lives."""

    user_s: float
    system_s: float
    threads_ns: Mapping[int, int]


def cpu_time(pid: int) -> CpuTime:
    """The CPU time of a process until now. Raises OSError when it is gone."""
    process = Path("/proc") / str(pid)
    # The name in parentheses may hold anything; fields 14 and 15 are the times.
    fields = process.joinpath("stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    threads = {}
    for thread in process.joinpath("task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            ran = thread.joinpath("schedstat").read_text(encoding="ascii").split()[0]
            threads[int(thread.name)] = int(ran)
    return CpuTime(int(fields[11]) * tick_s, int(fields[12]) * tick_s, threads)


def cpu_between(before: CpuTime, after: CpuTime) -> tuple[float, float]:
    """User and system seconds between two readings of one process.

    The ticks (10 ms) decide how the time is shared between the two; how much it is, is summed from
    the threads' nanoseconds, unless a thread ended in between and took its time with it.
    """
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    ticked_s = user_s + system_s
    if not ticked_s or not after.threads_ns or before.threads_ns.keys() - after.threads_ns.keys():
        return user_s, system_s
    exact_ns = sum(
        ran_ns - before.threads_ns.get(thread, 0) for thread, ran_ns in after.threads_ns.items()
    )
    scale = exact_ns / 1e9 / ticked_s
    return user_s * scale, system_s * scale


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
    with contextlib.closing(instance.connect()) as session:
        yield Counters(session, pid)
