"""Read what the processes of servers used at both edges of the measured part."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.host.cpu_clock import CpuTime, cpu_between
from millrace.loadgen.events import LoadResult
from millrace.model import measurements as names
from millrace.trial.hooks import EdgeReadings, MeasurementContext, MeasurementHook, Reading


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
