"""Read what a server's threads do at a moment, from their files in /proc."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millrace.collect.server_processes import ServerProcesses
from millrace.host import procfs, syscalls

# Calls whose first argument is the awaited descriptor, and calls whose first argument points to a
# list of descriptors.
_ON_DESCRIPTOR = frozenset({"read", "readv", "recvfrom", "recvmsg", "accept", "accept4"})
_ON_LIST = frozenset({"poll", "ppoll"})
_DESCRIPTOR_BYTES = 4  # of struct pollfd, the first member


@dataclass(frozen=True)
class ThreadSample:
    """A thread at one mark.

    ``stat`` and ``schedstat`` are its files. ``call`` is the call in which it waits, None where it
    runs or the call is not visible. ``waits_on`` is the link of the descriptor on which it waits.
    """

    stat: bytes
    schedstat: bytes | None
    call: str | None
    waits_on: str | None


class ThreadReader:
    """A reader of a server's threads; ``sees_calls`` becomes False where their calls are hidden."""

    def __init__(self, processes: ServerProcesses) -> None:
        self._processes = processes
        self.sees_calls = True

    def samples(self) -> Iterator[tuple[int, ThreadSample]]:
        """Yield the threads as they are now, with their numbers."""
        for tid, task in self._processes.tasks():
            stat = procfs.read_or_none(f"{task}/stat")
            if stat is None:
                continue  # it has just ended
            schedstat = procfs.read_or_none(f"{task}/schedstat")
            yield tid, ThreadSample(stat, schedstat, *self._wait(f"{task}/syscall"))

    def _wait(self, path: str) -> tuple[str | None, str | None]:
        """Return the call in which a thread waits, and the link of the awaited descriptor."""
        try:
            call = procfs.call(procfs.read(path))
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError):
            self.sees_calls = False
            return None, None
        if call is None or call.number < 0:
            return None, None
        name = syscalls.names().get(call.number)
        descriptor: int | None = None
        if name in _ON_DESCRIPTOR:
            descriptor = call.arguments[0]
        elif name in _ON_LIST and call.arguments[1]:
            # A server's thread waits on the first of several descriptors; the others only wake it
            # up.
            descriptor = self._first_of_list(call.arguments[0])
        return name, None if descriptor is None else self._link(descriptor)

    def _first_of_list(self, address: int) -> int | None:
        try:
            with Path(f"/proc/{self._processes.main}/mem").open("rb", buffering=0) as memory:
                memory.seek(address)
                return int.from_bytes(memory.read(_DESCRIPTOR_BYTES), "little")
        except (OSError, ValueError, OverflowError):
            return None

    def _link(self, descriptor: int) -> str | None:
        try:
            return str(Path(f"/proc/{self._processes.main}/fd/{descriptor}").readlink())
        except OSError:
            return None
