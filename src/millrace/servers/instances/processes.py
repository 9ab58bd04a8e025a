"""Identify processes reliably, find those of an instance, and end exactly these."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import HostError
from millrace.servers.instances import users

ENVIRONMENT_VARIABLE = "MILLRACE_INSTANCE"

END_LIMIT_S = 30.0
_POLL_S = 0.01
_ENVIRONMENT_BYTES = 1 << 18  # a server starts with a few hundred bytes


@dataclass(frozen=True)
class ProcessId:
    """A process; its start in ticks since boot distinguishes it from later ones with its id."""

    pid: int
    started_ticks: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """Return the identity of a running process; None if no process has this id."""
        ticks = _started_ticks(pid)
        return None if ticks is None else ProcessId(pid, ticks)

    def exists(self) -> bool:
        return _started_ticks(self.pid) == self.started_ticks


def boot_id() -> str:
    """Return the id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> str:
    """Return the id of this process namespace, which differs between containers."""
    return str(Path("/proc/self/ns/pid").readlink())


def end(process: ProcessId, with_signal: signal.Signals, *, limit_s: float) -> bool:
    """Send a signal to exactly this process and wait for its end; return False if it lives on.

    The start time is compared after the pidfd is opened, so the signal cannot reach a later process
    with the same id.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.exists():
            return True
        try:
            signal.pidfd_send_signal(descriptor, with_signal)
        except ProcessLookupError:
            return True
        except PermissionError as error:
            raise HostError(
                f"process {process.pid} belongs to another user: permission denied",
                hint="stop the process as that user",
            ) from error
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(limit_s * 1000))
    finally:
        os.close(descriptor)


def end_all_of(uid: int) -> None:
    """Kill all processes of an instance's user id, which the caller has reserved (``users``)."""
    if uid not in users.IDS:
        raise ValueError(f"{uid} is not a user id of an instance")
    deadline = time.monotonic() + END_LIMIT_S
    users.kill_all(uid)
    while pids := users.pids_of(uid):
        if time.monotonic() > deadline:
            raise HostError(
                f"processes of the server's user {uid} do not end: {', '.join(map(str, pids))}",
                hint="end these processes, or reboot this host, and run the command again",
            )
        time.sleep(_POLL_S)


def of_instance(instance_id: str, uid: int) -> set[ProcessId]:
    """Return the processes of the user ``uid`` whose environment starts with the instance's id.

    The read is limited, because a process can make its environment arbitrarily long.
    """
    wanted = f"{ENVIRONMENT_VARIABLE}={instance_id}".encode()
    found = set()
    for pid in users.pids_of(uid):
        if pid == os.getpid():
            continue
        process = ProcessId.of(pid)
        try:
            with Path(f"/proc/{pid}/environ").open("rb") as file:
                environment = file.read(_ENVIRONMENT_BYTES).split(b"\0")
        except OSError:  # an unreadable process is not the instance's
            continue
        if process is not None and wanted in environment:
            found.add(process)
    return found


def _started_ticks(pid: int) -> int | None:
    """Return the start time of a process; None if there is none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in brackets, which may itself contain brackets.
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else int(fields[18])
