"""Treat the processes of a server as one: a process with threads, or one process per session."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.databases.base import ServerClient
from millrace.host import procfs
from millrace.host.cpu_clock import CpuTime, cpu_time
from millrace.servers.instances.instance import Instance


@dataclass(frozen=True)
class ServerProcesses:
    """A running server: its first process and, where ``has_children``, those that it started."""

    main: int
    has_children: bool = False

    def pids(self) -> tuple[int, ...]:
        """Return the current processes, the first one first; raise OSError where that has ended."""
        if not self.has_children:
            return (self.main,)
        started = Path(f"/proc/{self.main}/task/{self.main}/children").read_text()
        return (self.main, *map(int, started.split()))

    def tasks(self) -> Iterator[tuple[int, Path]]:
        """Yield the number and the directory below /proc of each thread of each process."""
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a session has ended
                for task in Path(f"/proc/{pid}/task").iterdir():
                    yield int(task.name), task

    def cpu_time(self) -> CpuTime:
        """Return the time of all running processes; raise OSError where the first has ended."""
        times = [cpu_time(self.main)]
        for pid in self.pids()[1:]:
            with contextlib.suppress(OSError):
                times.append(cpu_time(pid))
        return CpuTime(
            sum(each.user_s for each in times),
            sum(each.system_s for each in times),
            sum(each.total_ns for each in times),
        )

    def read_bytes(self) -> int:
        """Return the bytes that all running processes had read from the disk so far.

        Raise OSError where the first has ended, or where this process may not know.
        """
        read = procfs.io(procfs.read(f"/proc/{self.main}/io"))["read_bytes"]
        for pid in self.pids()[1:]:
            with contextlib.suppress(OSError):
                read += procfs.io(procfs.read(f"/proc/{pid}/io"))["read_bytes"]
        return read


class Stopper:
    """A control that stops and resumes all processes of a server; the caller closes it."""

    def __init__(self, processes: ServerProcesses) -> None:
        # A process number could be reused, and the signal would stop a wrong process.
        self._main = os.pidfd_open(processes.main)
        self._processes = processes
        self._children: list[int] = []

    def stop(self) -> None:
        """Stop the server. Raise ProcessLookupError where it has ended."""
        signal.pidfd_send_signal(self._main, signal.SIGSTOP)
        for pid in self._processes.pids()[1:]:  # the stopped first process starts no more of them
            with contextlib.suppress(OSError):
                self._children.append(os.pidfd_open(pid))
                signal.pidfd_send_signal(self._children[-1], signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the server. Raise ProcessLookupError where it has ended."""
        try:
            signal.pidfd_send_signal(self._main, signal.SIGCONT)
        finally:
            while self._children:
                child = self._children.pop()
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGCONT)
                os.close(child)

    def close(self) -> None:
        """Close all descriptors."""
        os.close(self._main)


def processes_of(client: ServerClient) -> ServerProcesses | None:
    """Return the processes of a server; None where they are not visible, or none runs."""
    if not isinstance(client, Instance) or client.pid is None:
        return None
    return ServerProcesses(client.pid, client.family.has_process_per_session)
