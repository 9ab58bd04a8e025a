"""What a server's thread is for, judged from all that is known of it.

In this order, the first that says anything counts:

1. The process's first thread is ``main``: it starts the server and mostly listens.
2. A name that it gave itself and that only a background thread has.
3. What the server tells of it, or else the function that it spends its life in. One that works for
   a session in a database is a ``connection``, a worker of a pool of threads, whichever session it
   works for at the moment, is ``pool``; either only if it ran at all inside the window.
4. A descriptor it was seen waiting on: a client's connected socket makes it a ``connection``, again
   if it ran inside the window; one of millrace's own sessions ``observer``, whatever the server
   tells of that session; a listening socket ``main``; the kernel's queue of asynchronous reads and
   writes ``io``.
5. Where the server tells of all its sessions, a thread it does not tell of is ``background``.
6. Its start: a thread that began after the server was ready, and that ran inside the window, is a
   ``connection``, unless it was seen to wait for a lock each time: where MySQL without Performance
   Schema starts a thread of its own so late, it does nothing else.
7. All else is ``background``. So are threads that are kept for connections to come, and connections
   of whoever did nothing inside the window, since neither took part in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.databases.monitoring import BACKGROUND, CONNECTION, MAIN, OBSERVER, POOL
from millrace.host.sockets import Use

_OF_IO_URING = re.compile(r"iou-(wrk|sqp)-\d+")  # the kernel's own helpers


@dataclass(frozen=True)
class Thread:
    """All that is known of a thread.

    ``ran`` says whether it ran inside the window, ``told`` the kind it has by the server's word or
    by its function, ``sockets`` whose sockets it was seen waiting on, ``waited_for_io`` that it was
    seen waiting for reads and writes it had begun before, ``waited_for_locks`` that it was seen to
    wait for a lock at each mark.
    """

    tid: int
    name: str
    started_ticks: int
    ran: bool
    told: str | None = None
    sockets: frozenset[Use] = frozenset()
    waited_for_io: bool = False
    waited_for_locks: bool = False


@dataclass(frozen=True)
class Server:
    """What is known of a thread's server.

    ``ready`` tells the last of the threads that it started before it took connections, by the ticks
    since boot at its start and, as several start in one, its number; None where that is not known.
    ``tells_sessions`` says whether it told of the threads of all its sessions; ``names`` are
    patterns of the names that its threads give themselves, with their kinds.
    """

    pid: int
    ready: tuple[int, int] | None
    tells_sessions: bool
    names: Sequence[tuple[re.Pattern[str], str]]


def kind_of(thread: Thread, server: Server) -> str:
    """What a thread is for; see the module's text."""
    if thread.tid == server.pid:
        return MAIN
    return (
        _named(thread.name, server)
        or _told(thread)
        or _seen(thread)
        or (BACKGROUND if server.tells_sessions else _started(thread, server))
    )


def agreed(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The document's sections with the same kind for each thread in both that have threads: samples
    saw more of what it waits on than two looks."""
    if "threads" not in sections or "states" not in sections:
        return dict(sections)
    sampled = {thread["tid"]: thread["kind"] for thread in sections["states"]["threads"]}
    threads = [
        {**thread, "kind": sampled.get(thread["tid"], thread["kind"])}
        for thread in sections["threads"]["threads"]
    ]
    return {**sections, "threads": {**sections["threads"], "threads": threads}}


def _named(name: str, server: Server) -> str | None:
    if _OF_IO_URING.fullmatch(name):
        return "io"
    return next((kind for pattern, kind in server.names if pattern.fullmatch(name)), None)


def _told(thread: Thread) -> str | None:
    if thread.told == POOL:
        return POOL if thread.ran else BACKGROUND
    if "own" in thread.sockets and thread.told in (CONNECTION, BACKGROUND):
        return OBSERVER
    if thread.told == CONNECTION:
        return CONNECTION if thread.ran else BACKGROUND
    return thread.told


def _seen(thread: Thread) -> str | None:
    if "client" in thread.sockets:
        return CONNECTION if thread.ran else BACKGROUND
    if "own" in thread.sockets:
        return OBSERVER
    if "listening" in thread.sockets:
        return MAIN
    return "io" if thread.waited_for_io else None


def _started(thread: Thread, server: Server) -> str:
    late = server.ready is not None and (thread.started_ticks, thread.tid) > server.ready
    return CONNECTION if late and thread.ran and not thread.waited_for_locks else BACKGROUND
