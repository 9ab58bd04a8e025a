"""Find the kind of each thread of a server, from samples at both ends of the measured part."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.collect.model import Target
from millrace.collect.server_processes import ServerProcesses
from millrace.collect.threads.thread_functions import functions_of
from millrace.collect.threads.thread_kinds import Server, Thread, kind_of
from millrace.databases.client import ServerClient, Session
from millrace.databases.monitoring import (
    BACKGROUND,
    CONNECTION,
    MAIN,
    OBSERVER,
    POOL,
    ThreadRoleQuery,
)
from millrace.errors import DatabaseError, Unavailable
from millrace.host import procfs, sockets, syscalls
from millrace.host.sockets import Sockets
from millrace.model.servers import InstalledServer
from millrace.servers.instances.instance import Instance

# Calls whose first argument is the awaited descriptor, and calls whose first argument points to a
# list of descriptors.
_ON_DESCRIPTOR = frozenset({"read", "readv", "recvfrom", "recvmsg", "accept", "accept4"})
_ON_LIST = frozenset({"poll", "ppoll"})
FOR_IO = frozenset({"io_getevents", "io_pgetevents", "io_uring_enter"})
_FOR_LOCKS = "futex"
_WAITS_FOR_SIGNALS = "rt_sigtimedwait"
_UNNAMED = frozenset(
    {CONNECTION, POOL, OBSERVER, BACKGROUND, MAIN, "io"}
)  # kinds that need no name
NEEDS_PTRACE = (
    "run millrace as root or as the server's user; in a container, with the capability SYS_PTRACE"
)

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


@dataclass(frozen=True)
class ThreadActivity:
    """The facts of a thread from between the marks.

    ``waited_on`` are the links on which it waited; ``waited_for_io`` says whether it waited for
    asynchronous reads and writes.
    """

    name: str = ""
    waited_on: Collection[str] = ()
    waited_for_io: bool = False


def require_process(target: Target) -> int:
    """Return the server's process. Raise Unavailable where it is not visible."""
    if target.pid is None:
        raise Unavailable(
            "the server's process cannot be seen",
            hint="have millrace start the server itself, on this host",
        )
    return target.pid


def require_processes(target: Target) -> ServerProcesses:
    """Return all of the server's processes. Raise Unavailable where they are not visible."""
    family = target.instance.family
    return ServerProcesses(require_process(target), family.has_process_per_session)


class ThreadWatch:
    """An observation of a server's threads: it samples them twice, and then classifies each.

    It opens a session of its own when it is created. Where the server refuses one, the
    classification relies on the other facts.
    """

    def __init__(self, target: Target) -> None:
        self._processes = require_processes(target)
        self.pid = self._processes.main
        self._written = _pid_file_written(target.instance)
        self._listening = sockets.listening(self.pid)
        self._own: frozenset[int] = frozenset()
        self._samples: list[Mapping[int, ThreadSample]] = []
        self._reported: dict[int, str] = {}
        self._reports_sessions = False
        self._calls_visible = True
        self._own_visible = True
        self._has_pool = False
        self._session: Session | None = None
        self._roles: ThreadRoleQuery | None = None
        with contextlib.suppress(Unavailable, DatabaseError):
            self._session = target.session()
            self._roles = target.instance.family.monitoring.thread_roles(self._session)
            self._has_pool = self._roles.has_pool
        self._instance = target.instance
        self._running = _kinds_by_function(self.pid, target.instance, of_pools=False)

    def sample(self) -> Mapping[int, ThreadSample]:
        """Return the threads as they are now, at a mark."""
        self._query_roles()
        try:
            self._own = self._own | sockets.own()
        except OSError:
            self._own_visible = False
        samples = dict(self._each())
        self._samples.append(samples)
        return samples

    def sockets(self) -> Sockets:
        """Return the sockets known so far that do not belong to clients."""
        return Sockets(self._listening, self._own)

    @property
    def serving(self) -> str:
        """The kind of the threads that serve clients."""
        return POOL if self._has_pool else CONNECTION

    def kinds(self, activity: Mapping[int, ThreadActivity] | None = None) -> Mapping[int, str]:
        """Return the kind of each thread that existed at a mark or was sampled in between.

        Call it while the threads exist: workers of a pool start on demand.
        """
        activity = activity or {}
        if self._has_pool:
            workers = _kinds_by_function(self.pid, self._instance, of_pools=True)
            self._running = {**self._running, **workers}
        server = Server(
            self.pid,
            self._ready(),
            self._reports_sessions,
            self._instance.family.monitoring.threads.own,
        )
        tids = {tid for samples in self._samples for tid in samples} | set(activity)
        return {
            tid: kind_of(self._thread(tid, activity.get(tid, ThreadActivity())), server)
            for tid in tids
        }

    def missing(self) -> list[Unavailable]:
        """Return the parts that could not be observed."""
        found = []
        if not self._calls_visible:
            found.append(
                Unavailable(
                    "what the server's threads wait for, which shows those of clients",
                    hint=NEEDS_PTRACE,
                )
            )
        if not self._own_visible:
            found.append(
                Unavailable(
                    "which of the server's threads work for millrace's own sessions",
                    hint="use a kernel with CONFIG_UNIX_DIAG",
                )
            )
        if self._samples and _UNNAMED.issuperset(self.kinds().values()):
            hint = self._instance.family.monitoring.threads.hint
            found.append(Unavailable("what the server's background threads are for", hint=hint))
        return found

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _query_roles(self) -> None:
        """Query the server for the kinds of its threads, until it refuses once."""
        if self._roles is None:
            return
        try:
            reported = self._roles.kinds()
        except (Unavailable, DatabaseError):
            self._roles = None
            return
        self._reports_sessions = self._roles.reports_sessions
        # A thread that served a client at one mark keeps that kind, whatever the other mark shows.
        clients = {tid: kind for tid, kind in self._reported.items() if kind in (CONNECTION, POOL)}
        self._reported |= reported | clients

    def _ready(self) -> tuple[int, int] | None:
        """Return start and number of the last thread from before the server accepted connections.

        That is the thread that waits for signals, which also writes the pid file.
        """
        return max(
            (
                (procfs.stat(sample.stat).started_ticks, tid)
                for samples in self._samples
                for tid, sample in samples.items()
                if sample.call == _WAITS_FOR_SIGNALS and tid != self.pid
            ),
            default=self._written,
        )

    def _each(self) -> Iterator[tuple[int, ThreadSample]]:
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
            self._calls_visible = False
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
            with Path(f"/proc/{self.pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(address)
                return int.from_bytes(memory.read(_DESCRIPTOR_BYTES), "little")
        except (OSError, ValueError, OverflowError):
            return None

    def _link(self, descriptor: int) -> str | None:
        try:
            return str(Path(f"/proc/{self.pid}/fd/{descriptor}").readlink())
        except OSError:
            return None

    def _thread(self, tid: int, activity: ThreadActivity) -> Thread:
        samples = [each[tid] for each in self._samples if tid in each]
        links = {
            *activity.waited_on,
            *(each.waits_on for each in samples if each.waits_on is not None),
        }
        uses = frozenset(use for use in map(self.sockets().use, links) if use is not None)
        if not samples:  # it lived in between
            reported = self._reported.get(tid)
            return Thread(tid, activity.name, 0, True, reported, uses, activity.waited_for_io)
        first, last = procfs.stat(samples[0].stat), procfs.stat(samples[-1].stat)
        runs = self._running.get((tid, last.started_ticks))
        # A server reports a session under the pool worker that last executed it.
        reported = POOL if runs == POOL else self._reported.get(tid) or runs
        is_same = len(samples) > 1 and first.started_ticks == last.started_ticks
        return Thread(
            tid=tid,
            name=last.name,
            started_ticks=last.started_ticks,
            ran=not is_same or _ran(samples[0], samples[-1]),
            reported=reported,
            sockets=uses,
            waited_for_io=activity.waited_for_io or any(each.call in FOR_IO for each in samples),
            waited_for_locks=all(each.call == _FOR_LOCKS for each in samples),
        )


def _kinds_by_function(
    pid: int, instance: ServerClient, *, of_pools: bool
) -> Mapping[tuple[int, int], str]:
    """Return the kinds of threads by their outermost functions, keyed by number and start.

    With ``of_pools``, the result holds the workers of a pool, otherwise all others.
    """
    server = instance.server
    if not isinstance(server, InstalledServer):
        return {}
    known = instance.family.monitoring.threads.functions
    kinds = {name: kind for name, kind in known.items() if (kind == POOL) is of_pools}
    try:
        functions = functions_of(pid, server.program, kinds.keys())
    except OSError:
        return {}
    stats = {tid: procfs.read_or_none(f"/proc/{pid}/task/{tid}/stat") for tid in functions}
    return {
        (tid, procfs.stat(stat).started_ticks): kinds[functions[tid]]
        for tid, stat in stats.items()
        if stat is not None
    }


def _pid_file_written(instance: ServerClient) -> tuple[int, int] | None:
    """Return the time of a server's pid file as the latest possible start of a thread.

    Return None where it wrote none.
    """
    if not isinstance(instance, Instance):
        return None
    try:
        written_s = instance.pid_file.lstat().st_mtime
    except OSError:
        return None
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    ticks = (written_s - booted_s) * os.sysconf("SC_CLK_TCK")
    # The time of a file may be that of the kernel's previous tick.
    return int(ticks) + 1, sys.maxsize


def _ran(first: ThreadSample, last: ThreadSample) -> bool:
    if first.schedstat is not None and last.schedstat is not None:
        return procfs.schedstat(first.schedstat) != procfs.schedstat(last.schedstat)
    before, after = procfs.stat(first.stat), procfs.stat(last.stat)
    ticks = (before.user_ticks + before.system_ticks, after.user_ticks + after.system_ticks)
    return ticks[0] != ticks[1]
