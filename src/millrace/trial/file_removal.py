"""Time how long a server removed files during maintenance or a DROP, apart from its own work.

The kernel's trace has the system calls by which threads of the server remove, close or shorten
files: the blocks of a file are freed by its unlink, or where that comes first, by its last close.
The load generator reports when the statements ran, by its own clock, which is as far from the
kernel's as the event that came through fastest shows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from millrace.collect.collectors import Edge
from millrace.collect.server_processes import ServerProcesses, processes_of
from millrace.errors import Unavailable
from millrace.host.tracing import Tracing
from millrace.loadgen.events import Event, LoadResult, MaintenanceResult, Mark
from millrace.model import measurements as names
from millrace.trial.hooks import LiveServer, MeasurementContext, MeasurementHook, WindowHook
from millrace.trial.outputs import TrialOutputs

_CALLS = ("unlink", "unlinkat", "close", "truncate", "ftruncate", "fallocate")

SYSTEM = "syscalls"
EVENTS = tuple(f"sys_{edge}_{name}" for name in _CALLS for edge in ("enter", "exit"))

_LINE = re.compile(
    r".*-(?P<tid>\d+)\s+(?:\([\s\d-]+\)\s+)?\[\d+\]\s+\S+\s+(?P<at_s>\d+\.\d+): "
    rf"sys_(?P<name>{'|'.join(_CALLS)})(?P<edge>\(| -> )"
)

_CLOCKS_DIFFER_S = 0.002


@dataclass(frozen=True)
class FileCall:
    """A system call of a thread; times are those of the trace's clock."""

    tid: int
    name: str
    from_s: float
    until_s: float


def file_calls(text: str) -> Iterator[FileCall]:
    """Yield the calls of a trace that it has whole, in the order of their ends."""
    begun: dict[int, tuple[str, float]] = {}
    for match in map(_LINE.match, text.splitlines()):
        if match is None:
            continue
        tid, name, at_s = int(match["tid"]), match["name"], float(match["at_s"])
        if match["edge"] == "(":
            begun[tid] = (name, at_s)
        elif (call := begun.pop(tid, None)) is not None and call[0] == name:
            yield FileCall(tid, name, call[1], at_s)


def hooks(measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook where the driven server has maintenance and millrace may trace it."""
    if not measurement.spec.workload.checked.has_maintenance:
        return
    trace = open_trace(measurement.servers[0], measurement.outputs, opened)
    if trace is not None:
        yield FileRemoval(measurement, trace)


def drop(server: LiveServer, outputs: TrialOutputs, limit_s: float) -> None:
    """Drop the database, and measure the time until the server answers. Raise TrialFailed.

    Where millrace may trace the server, the time of removing files is measured apart. Servers that
    remove files in the background may continue after their answer, which no time here includes.
    """
    with ExitStack() as opened:
        trace = open_trace(server, outputs, opened)
        if trace is not None:
            trace.start()
        began_s = time.monotonic()
        server.client.family.administration.drop_database(server.client, server.database, limit_s)
        ended_s = time.monotonic()
        outputs.add_measurement(names.DROP_S, ended_s - began_s, server.role)
        if trace is None:
            return
        trace.stop()
        calls = trace.calls()
        if calls is not None:
            removal_s = removal_between(calls, began_s, ended_s)
            own_s = max(ended_s - began_s - removal_s, 0.0)
            outputs.add_measurement(names.DROP_REMOVAL_S, removal_s, server.role)
            outputs.add_measurement(names.DROP_OWN_S, own_s, server.role)


def open_trace(server: LiveServer, outputs: TrialOutputs, opened: ExitStack) -> RemovalTrace | None:
    """Return a trace of a server's calls, closed with ``opened``; None where it is not possible.

    The reason is then a fact of the server's record.
    """
    processes = processes_of(server.client)
    try:
        if processes is None:
            raise Unavailable("its processes cannot be observed from here")
        tracing = Tracing(EVENTS, SYSTEM)
    except Unavailable as error:
        outputs.add_facts(server.role, file_removal_unknown=str(error))
        return None
    opened.callback(tracing.close)
    return RemovalTrace(server.role, outputs, processes, tracing)


class RemovalTrace:
    """The calls of one server between ``start`` and ``stop``; a failure becomes a fact."""

    def __init__(
        self, role: str, outputs: TrialOutputs, processes: ServerProcesses, tracing: Tracing
    ) -> None:
        self.role = role
        self._outputs = outputs
        self._processes = processes
        self._tracing = tracing
        self._failure: OSError | None = None

    def start(self) -> None:
        """Record the calls of the server's threads, and of those that they start."""
        try:
            self._tracing.follow([tid for tid, _ in self._processes.tasks()])
            self._tracing.start()
        except OSError as error:
            self._failure = error

    def stop(self) -> None:
        """End the recording."""
        try:
            self._tracing.stop()
        except OSError as error:
            self._failure = error

    def calls(self) -> list[FileCall] | None:
        """Return the recorded calls; None where they are not complete."""
        try:
            if self._failure is not None:
                raise self._failure
            calls, lost = list(file_calls(self._tracing.text())), self._tracing.lost()
        except OSError as error:
            why = f"the kernel cannot trace system calls: {error}"
        else:
            if not lost:
                return calls
            why = f"the kernel lost {lost} of its events"
        self._outputs.add_facts(self.role, file_removal_unknown=why)
        return None


class FileRemoval(WindowHook):
    """Trace one server's calls over the measured part."""

    def __init__(self, measurement: MeasurementContext, trace: RemovalTrace) -> None:
        super().__init__(measurement)
        self._trace = trace
        self._offset_s: float | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, Mark) and event.mark != "phase_started":
            offset_s = time.monotonic() - event.t_s
            self._offset_s = min(offset_s, self._offset_s or offset_s)
        super().on_event(event)

    def at_edge(self, edge: Edge) -> None:
        if edge == "begin":
            self._trace.start()
        else:
            self._trace.stop()

    def contribute(self, result: LoadResult) -> None:
        driven = result.driven()
        if driven is None or driven.maintenance is None or self._offset_s is None:
            return
        calls = self._trace.calls()
        if calls is None:
            return
        removal_s = removal(calls, driven.maintenance, self._offset_s)
        own_s = max(sum(driven.maintenance.statements_s) - removal_s, 0.0)
        outputs = self._measurement.outputs
        outputs.add_measurement(names.FILE_REMOVAL_S, removal_s, self._trace.role)
        outputs.add_measurement(names.MAINTENANCE_OWN_S, own_s, self._trace.role)


def removal(calls: list[FileCall], maintenance: MaintenanceResult, offset_s: float) -> float:
    """Return the time of the calls that began during maintenance, in seconds."""
    return removal_between(calls, maintenance.from_s + offset_s, maintenance.until_s + offset_s)


def removal_between(calls: list[FileCall], from_s: float, until_s: float) -> float:
    """Return the time of the calls that began between two monotonic times, in seconds."""
    first_s, last_s = from_s - _CLOCKS_DIFFER_S, until_s + _CLOCKS_DIFFER_S
    return sum(each.until_s - each.from_s for each in calls if first_s <= each.from_s <= last_s)
