"""Find the kind of each thread of a server, from samples at both ends of the measured part.

The first of these rules that gives a kind applies:

1. The process's first thread is ``main``: it starts the server and mostly listens.
2. A name that the thread gave itself and that only a background thread has.
3. The server's own report, or else the thread's outermost function. A thread that works for a
   session in a database is a ``connection``. A worker of a thread pool is ``pool``, whichever
   session it serves at the moment. Both hold only if the thread ran inside the window.
4. A descriptor on which it waited. A client's connected socket makes it a ``connection``, again if
   it ran inside the window; a session of millrace makes it ``observer``, whatever the server
   reports of that session; a listening socket ``main``; the kernel's queue of asynchronous reads
   and writes ``io``.
5. Where the server reports all its sessions, a thread outside its report is ``background``.
6. Its start. A thread that began after the server was ready, and that ran inside the window, is a
   ``connection``, unless it waited for a lock at each mark: the only threads that a server without
   reports starts so late on its own do nothing else.
7. All others are ``background``. So are threads that the server keeps for future connections, and
   connections that did nothing inside the window, because neither took part in it.
"""

import contextlib
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from millrace.collect.model import Target
from millrace.collect.server_processes import ServerProcesses
from millrace.collect.threads.thread_functions import functions_of
from millrace.collect.threads.thread_reader import ThreadReader, ThreadSample
from millrace.databases.base import ServerClient
from millrace.databases.client import Session
from millrace.databases.monitoring import (
    APPLIER,
    BACKGROUND,
    CONNECTION,
    COORDINATOR,
    MAIN,
    OBSERVER,
    POOL,
    ThreadRoleQuery,
)
from millrace.errors import DatabaseError, Unavailable
from millrace.host import procfs, sockets
from millrace.host.sockets import Sockets, Use
from millrace.model.servers import InstalledServer
from millrace.servers.instances.instance import Instance

_OF_IO_URING = re.compile(r"iou-(wrk|sqp)-\d+")  # the kernel's own helpers

FOR_IO = frozenset({"io_getevents", "io_pgetevents", "io_uring_enter"})
_FOR_LOCKS = "futex"
_SURE = (POOL, APPLIER, COORDINATOR)  # kinds by the thread's function, whatever the server says
_WAITS_FOR_SIGNALS = "rt_sigtimedwait"
# Kinds that need no name.
_UNNAMED = frozenset({CONNECTION, POOL, OBSERVER, BACKGROUND, MAIN, "io"})
NEEDS_PTRACE = (
    "run millrace as root or as the server's user; in a container, with the capability SYS_PTRACE"
)


@dataclass(frozen=True)
class Thread:
    """All known facts of a thread.

    ``ran``: it ran inside the window. ``reported``: its kind by the server or by its function.
    ``sockets``: the users of the sockets on which it waited. ``waited_for_io``: it waited for
    asynchronous reads and writes. ``waited_for_locks``: it waited for a lock at each mark.
    """

    tid: int
    name: str
    started_ticks: int
    ran: bool
    reported: str | None = None
    sockets: frozenset[Use] = frozenset()
    waited_for_io: bool = False
    waited_for_locks: bool = False


@dataclass(frozen=True)
class Server:
    """The known facts of a thread's server.

    ``ready`` identifies the last thread that the server started before it accepted connections, by
    its start in ticks since boot and its number, because several threads start in one tick; None
    where it is unknown. ``reports_sessions`` says whether the server reported the threads of all
    its sessions. ``names`` are patterns of the names that its threads give themselves, with their
    kinds.
    """

    pid: int
    ready: tuple[int, int] | None
    reports_sessions: bool
    names: Sequence[tuple[re.Pattern[str], str]]


def kind_of(thread: Thread, server: Server) -> str:
    """Return the kind of a thread by the rules in the module's text."""
    if thread.tid == server.pid:
        return MAIN
    return (
        _named(thread.name, server)
        or _reported(thread)
        or _by_wait(thread)
        or (BACKGROUND if server.reports_sessions else _by_start(thread, server))
    )


def of_replica(kinds: Mapping[int, str], threads: Mapping[int, Thread]) -> dict[int, str]:
    """Return the kinds of a replica's threads: those that apply changes are its connections.

    The coordinator counts only where it applies the changes itself. Sessions of clients, and the
    thread that copies the source's log, are in the background.
    """
    ran = {tid: kind for tid, kind in kinds.items() if threads[tid].ran}
    applying = [tid for tid, kind in ran.items() if kind == APPLIER]
    serving = applying or [tid for tid, kind in ran.items() if kind == COORDINATOR]
    others = {tid: BACKGROUND if kind == CONNECTION else kind for tid, kind in kinds.items()}
    return others | dict.fromkeys(serving, CONNECTION)


def _named(name: str, server: Server) -> str | None:
    if _OF_IO_URING.fullmatch(name):
        return "io"
    return next((kind for pattern, kind in server.names if pattern.fullmatch(name)), None)


def _reported(thread: Thread) -> str | None:
    if thread.reported == POOL:
        return POOL if thread.ran else BACKGROUND
    if "own" in thread.sockets and thread.reported in (CONNECTION, BACKGROUND):
        return OBSERVER
    if thread.reported == CONNECTION:
        return CONNECTION if thread.ran else BACKGROUND
    return thread.reported


def _by_wait(thread: Thread) -> str | None:
    if "client" in thread.sockets:
        return CONNECTION if thread.ran else BACKGROUND
    if "own" in thread.sockets:
        return OBSERVER
    if "listening" in thread.sockets:
        return MAIN
    return "io" if thread.waited_for_io else None


def _by_start(thread: Thread, server: Server) -> str:
    late = server.ready is not None and (thread.started_ticks, thread.tid) > server.ready
    return CONNECTION if late and thread.ran and not thread.waited_for_locks else BACKGROUND


@dataclass(frozen=True)
class ThreadActivity:
    """A thread between the marks: the links it waited on, and whether for asynchronous I/O."""

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
    family = target.client.family
    return ServerProcesses(require_process(target), family.has_process_per_session)


class RoleReports:
    """The kinds of threads that a server reports, in a session of their own, until it refuses.

    ``has_pool``: sessions share threads; ``covers_sessions``: the threads of all are reported.
    """

    def __init__(self, target: Target) -> None:
        self.kinds: dict[int, str] = {}
        self.has_pool = False
        self.covers_sessions = False
        self._session: Session | None = None
        self._query: ThreadRoleQuery | None = None
        with contextlib.suppress(Unavailable, DatabaseError):
            self._session = target.session()
            self._query = target.client.family.monitoring.thread_roles(self._session)
            self.has_pool = self._query.has_pool

    def update(self) -> None:
        """Query the server for the kinds of its threads now."""
        if self._query is None:
            return
        try:
            reported = self._query.kinds()
        except (Unavailable, DatabaseError):
            self._query = None
            return
        self.covers_sessions = self._query.reports_sessions
        for tid, kind in reported.items():
            # A thread that served a client at one mark keeps that kind, whatever the other shows.
            if self.kinds.get(tid) not in (CONNECTION, POOL):
                self.kinds[tid] = kind

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class ThreadWatch:
    """Classify a server's threads by samples at marks, its reports, functions and sockets."""

    def __init__(self, target: Target) -> None:
        processes = require_processes(target)
        self.pid = processes.main
        self._instance = target.client
        self._is_replica = target.is_replica
        self._reader = ThreadReader(processes)
        self._samples: list[Mapping[int, ThreadSample]] = []
        self._ready_at_most = _pid_file_written(target.client)
        self._listening = sockets.listening(self.pid)
        self._own_sockets: frozenset[int] = frozenset()
        self._sees_own_sockets = True
        self._roles = RoleReports(target)
        self._by_function = _kinds_by_function(self.pid, target.client, of_pools=False)

    def sample(self) -> Mapping[int, ThreadSample]:
        """Return the threads as they are now, at a mark."""
        self._roles.update()
        try:
            self._own_sockets |= sockets.own()
        except OSError:
            self._sees_own_sockets = False
        samples = dict(self._reader.samples())
        self._samples.append(samples)
        return samples

    def sockets(self) -> Sockets:
        """Return the sockets known so far that do not belong to clients."""
        return Sockets(self._listening, self._own_sockets)

    @property
    def serving(self) -> str:
        """The kind of the threads that serve clients."""
        return POOL if self._roles.has_pool else CONNECTION

    def kinds(self, activity: Mapping[int, ThreadActivity] | None = None) -> Mapping[int, str]:
        """Return the kind of each sampled thread; call it while the threads exist."""
        activity = activity or {}
        if self._roles.has_pool:
            workers = _kinds_by_function(self.pid, self._instance, of_pools=True)
            self._by_function = {**self._by_function, **workers}
        if self._is_replica:  # its threads start in the measured part
            appliers = _kinds_by_function(self.pid, self._instance, of_pools=False)
            self._by_function = {**self._by_function, **appliers}
        server = Server(
            self.pid,
            self._last_startup_thread(),
            self._roles.covers_sessions,
            self._instance.family.monitoring.threads.own,
        )
        tids = {tid for samples in self._samples for tid in samples} | set(activity)
        threads = {tid: self._thread(tid, activity.get(tid, ThreadActivity())) for tid in tids}
        kinds = {tid: kind_of(thread, server) for tid, thread in threads.items()}
        return of_replica(kinds, threads) if self._is_replica else kinds

    def missing(self, kinds: Mapping[int, str]) -> Iterator[Unavailable]:
        """Yield the parts that could not be observed, where threads are of these ``kinds``."""
        if not self._reader.sees_calls:
            yield Unavailable(
                "what the server's threads wait for, which shows those of clients",
                hint=NEEDS_PTRACE,
            )
        if not self._sees_own_sockets:
            yield Unavailable(
                "which of the server's threads work for millrace's own sessions",
                hint="use a kernel with CONFIG_UNIX_DIAG",
            )
        if kinds and _UNNAMED.issuperset(kinds.values()):
            hint = self._instance.family.monitoring.threads.hint
            yield Unavailable("what the server's background threads are for", hint=hint)

    def close(self) -> None:
        self._roles.close()

    def _last_startup_thread(self) -> tuple[int, int] | None:
        """Return start and number of the last startup thread, which writes the pid file."""
        return max(
            (
                (procfs.stat(sample.stat).started_ticks, tid)
                for samples in self._samples
                for tid, sample in samples.items()
                if sample.call == _WAITS_FOR_SIGNALS and tid != self.pid
            ),
            default=self._ready_at_most,
        )

    def _thread(self, tid: int, activity: ThreadActivity) -> Thread:
        samples = [each[tid] for each in self._samples if tid in each]
        links = {
            *activity.waited_on,
            *(each.waits_on for each in samples if each.waits_on is not None),
        }
        uses = frozenset(use for use in map(self.sockets().use, links) if use is not None)
        if not samples:  # it lived in between
            reported = self._roles.kinds.get(tid)
            return Thread(tid, activity.name, 0, True, reported, uses, activity.waited_for_io)
        first, last = procfs.stat(samples[0].stat), procfs.stat(samples[-1].stat)
        runs = self._by_function.get((tid, last.started_ticks))
        # A server reports a session under the pool worker that last executed it, and a replica's
        # threads as sessions.
        reported = runs if runs in _SURE else self._roles.kinds.get(tid) or runs
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
    """Return the kinds of pool workers, or of all others, by number and start of the thread."""
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
    """Return the pid file's time as the latest start of a startup thread; None without a file."""
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
