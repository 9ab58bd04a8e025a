"""Classify a server's threads by all known facts.

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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.databases.monitoring import (
    APPLIER,
    BACKGROUND,
    CONNECTION,
    COORDINATOR,
    MAIN,
    OBSERVER,
    POOL,
)
from millrace.host.sockets import Use

_OF_IO_URING = re.compile(r"iou-(wrk|sqp)-\d+")  # the kernel's own helpers


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
