"""Time how long a server removed files during maintenance, apart from its own work.

The kernel's trace has the system calls of all threads of the server. The load generator says when
the statements ran, by its own clock: the event that came through fastest tells its offset.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from millrace.collect.collectors import Edge
from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.errors import Unavailable
from millrace.host.file_calls import EVENTS, SYSTEM, FileCall, file_calls
from millrace.host.tracing import Tracing
from millrace.loadgen.events import Event, LoadResult, MaintenanceResult, Mark
from millrace.model import measurements as names
from millrace.trial.hooks import MeasurementContext, MeasurementHook, WindowHook

_CLOCKS_DIFFER_S = 0.002


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook where the driven server has maintenance and millrace may trace it."""
    if not measurement.spec.workload.checked.has_maintenance:
        return
    server = measurement.servers[0]
    processes = processes_of(server.client)
    if processes is None:
        why = "its processes cannot be observed from here"
        measurement.outputs.add_facts(server.role, file_removal_unknown=why)
        return
    try:
        tracing = Tracing(EVENTS, SYSTEM)
    except Unavailable as error:
        measurement.outputs.add_facts(server.role, file_removal_unknown=str(error))
        return
    opened.callback(tracing.close)
    yield FileRemoval(measurement, server.role, processes, tracing)


class FileRemoval(WindowHook):
    """Trace one server's calls over the measured part."""

    def __init__(
        self,
        measurement: MeasurementContext,
        role: str,
        processes: ServerProcesses,
        tracing: Tracing,
    ) -> None:
        super().__init__(measurement)
        self._role = role
        self._processes = processes
        self._tracing = tracing
        self._offset_s: float | None = None
        self._failure: OSError | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, Mark) and event.mark != "phase_started":
            offset_s = time.monotonic() - event.t_s
            self._offset_s = min(offset_s, self._offset_s or offset_s)
        super().on_event(event)

    def at_edge(self, edge: Edge) -> None:
        try:
            if edge == "begin":
                self._tracing.follow([tid for tid, _ in self._processes.tasks()])
                self._tracing.start()
            else:
                self._tracing.stop()
        except OSError as error:
            self._failure = error

    def contribute(self, result: LoadResult) -> None:
        driven = result.driven()
        if driven is None or driven.maintenance is None or self._offset_s is None:
            return
        outputs = self._measurement.outputs
        try:
            if self._failure is not None:
                raise self._failure
            calls, lost = list(file_calls(self._tracing.text())), self._tracing.lost()
        except OSError as error:
            why = f"the kernel cannot trace system calls: {error}"
            outputs.add_facts(self._role, file_removal_unknown=why)
            return
        if lost:
            why = f"the kernel lost {lost} of its events"
            outputs.add_facts(self._role, file_removal_unknown=why)
            return
        removal_s = removal(calls, driven.maintenance, self._offset_s)
        own_s = max(sum(driven.maintenance.statements_s) - removal_s, 0.0)
        outputs.add_measurement(names.FILE_REMOVAL_S, removal_s, self._role)
        outputs.add_measurement(names.MAINTENANCE_OWN_S, own_s, self._role)


def removal(calls: list[FileCall], maintenance: MaintenanceResult, offset_s: float) -> float:
    """Return the time of the calls that began during maintenance, in seconds."""
    from_s = maintenance.from_s + offset_s - _CLOCKS_DIFFER_S
    until_s = maintenance.until_s + offset_s + _CLOCKS_DIFFER_S
    return sum(each.until_s - each.from_s for each in calls if from_s <= each.from_s <= until_s)
