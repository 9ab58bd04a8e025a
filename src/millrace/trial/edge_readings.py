"""Read clocks, the processes of servers and their counters at both edges of the measured part.

A machine that sleeps stops CLOCK_MONOTONIC, by which millrace measures, but not CLOCK_BOOTTIME. A
virtual machine that its host suspends may notice neither; when it goes on, its wall clock is set
forward. Steal is the time in which a virtual CPU wanted to run and the hypervisor ran something
else; the kernel counts it in /proc/stat.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.databases.base import StorageState
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.errors import TrialFailed
from millrace.host.cpu_clock import CpuTime, cpu_between
from millrace.host.files import read_file
from millrace.host.parsers import cpu_steal
from millrace.loadgen.events import LoadResult
from millrace.model import measurements as names
from millrace.model.instance_facts import HostTimeFact
from millrace.trial import buffer_pool
from millrace.trial.hooks import (
    EdgeReadings,
    LiveServer,
    MeasurementContext,
    MeasurementHook,
    Reading,
)

_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Moment:
    """Clocks in seconds; steal and all time of the trial's CPUs in ticks, None where unknown."""

    monotonic_s: float
    boot_s: float
    wall_s: float
    steal: tuple[int, int] | None


def moment(cpus: Collection[int], stat: Path = _STAT) -> Moment:
    """Read the clocks and the steal of some CPUs."""
    return Moment(
        monotonic_s=time.clock_gettime(time.CLOCK_MONOTONIC),
        boot_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        wall_s=time.clock_gettime(time.CLOCK_REALTIME),
        steal=cpu_steal(read_file(stat), cpus),
    )


def host_time_hooks(
    measurement: MeasurementContext, _opened: ExitStack
) -> Iterator[MeasurementHook]:
    """Yield the hook that records the host's time; every measurement has it."""
    yield HostTime(measurement)


class HostTime(EdgeReadings[Moment]):
    """Read the moments at which the measured part begins and ends."""

    def __init__(self, measurement: MeasurementContext) -> None:
        super().__init__(measurement)
        self._cpus = os.sched_getaffinity(0)

    def read(self) -> Moment:
        return moment(self._cpus)

    def contribute(self, result: LoadResult) -> None:
        if self.both is not None:
            self._measurement.outputs.add_facts(host_time=between(*self.both))


def between(begin: Moment, end: Moment) -> HostTimeFact:
    """Return the time between two moments, by all clocks."""
    measured_s, booted_s = end.monotonic_s - begin.monotonic_s, end.boot_s - begin.boot_s
    share = None
    if begin.steal is not None and end.steal is not None and end.steal[1] > begin.steal[1]:
        # The kernel's counts may go back by a tick.
        stolen = max(end.steal[0] - begin.steal[0], 0)
        share = min(stolen / (end.steal[1] - begin.steal[1]), 1.0)
    return HostTimeFact(
        measured_s=measured_s,
        suspended_s=max(round(booted_s - measured_s, 6), 0.0),
        clock_step_s=round(end.wall_s - begin.wall_s - booted_s, 6),
        steal_share=share,
    )


def cpu_hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for the CPU time of each driven server, or replica, that millrace may read."""
    return _hooks(measurement, ServerCpu)


def read_hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield a hook for the disk reads of each driven server whose processes millrace may read."""
    return _hooks(measurement, ServerReads)


def _hooks(
    measurement: MeasurementContext,
    hook: Callable[[MeasurementContext, str, ServerProcesses], MeasurementHook],
) -> Iterator[MeasurementHook]:
    workload = measurement.spec.workload
    for server in measurement.servers if workload.drives or workload.checked.replicates else ():
        processes = processes_of(server.client)
        if processes is not None:
            yield hook(measurement, server.role, processes)


class _OfProcesses(EdgeReadings[Reading]):
    """Read a figure of one server's processes at both edges."""

    def __init__(
        self, measurement: MeasurementContext, role: str, processes: ServerProcesses
    ) -> None:
        super().__init__(measurement)
        self._role = role
        self._processes = processes

    def _add(self, name: str, value: float) -> None:
        self._measurement.outputs.add_measurement(name, value, self._role)


class ServerCpu(_OfProcesses[CpuTime]):
    """Read one server's CPU time at both edges."""

    def read(self) -> CpuTime:
        return self._processes.cpu_time()

    def contribute(self, result: LoadResult) -> None:
        if self.both is not None:
            user_s, system_s = cpu_between(*self.both)
            self._add(names.SERVER_USER_S, user_s)
            self._add(names.SERVER_SYSTEM_S, system_s)


class ServerReads(_OfProcesses[int]):
    """Read at both edges the bytes that one server had read from the disk."""

    def read(self) -> int:
        return self._processes.read_bytes()

    def contribute(self, result: LoadResult) -> None:
        if self.both is not None:
            before, after = self.both
            self._add(names.SERVER_READ_BYTES, after - before)


def counter_hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
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
