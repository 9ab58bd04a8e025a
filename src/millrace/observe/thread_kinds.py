"""What a server's thread is for, judged from all that is known of it.

In this order, the first that says anything counts:

1. The process's first thread is ``main``: it starts the server and mostly listens.
2. A name that only a background thread has, the thread's own or the one that the server tells.
3. A descriptor it was seen waiting on: a client's connected socket makes it a ``connection``, if
   it did anything at all inside the window; one of millrace's own sessions an ``observer``; a
   listening socket ``main``; the kernel's queue of asynchronous reads and writes ``io``.
4. What the server tells of its connections, where it tells: those it lists are a ``connection``,
   but for millrace's own, and no other thread is. So workers of a pool, which begin late too, are
   ``background``.
5. Its start: a thread that began after the server was ready, and that ran inside the window, is a
   ``connection``. Servers that tell of no threads (MySQL to 5.6) start no others then.
6. All else is ``background``. So are threads that are kept for connections to come, and connections
   of whoever did nothing inside the window, since neither took part in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from millrace.observe.sockets import Use

Kind = Literal[
    "connection",
    "purge",
    "page_cleaner",
    "log",
    "checkpoint",
    "io",
    "binlog",
    "timer",
    "main",
    "observer",
    "background",
]

# Names that threads give themselves, at most 15 characters: MySQL from 8.0.27 (with Performance
# Schema) and MariaDB from 11.5. The first match counts.
_OWN_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"ib_log_checkpt", "checkpoint"),
    (r"ib_log_.*", "log"),
    (r"ib_pg_flush.*|page_cleaner", "page_cleaner"),
    (r"ib_srv_(purge|wkr).*", "purge"),
    (r"ib_io_.*|io_uring_wait", "io"),
    (r"iou-(wrk|sqp)-\d+", "io"),  # the kernel's own helpers of io_uring
    (r"binlog.*", "binlog"),
    (r"statement_timer", "timer"),
    (r"(ib|xpl|rpl|slave)_.*", "background"),
    (r"sig_handler|evt_sched|gtid_zip|checkpoint_bg|manager|signal_handler", "background"),
)

# What Performance Schema calls threads, without what the names begin with: thread/CLASS/.
_TOLD_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"log_checkpointer_thread", "checkpoint"),
    (r"log_(writer|flusher|write_notifier|flush_notifier|files_governor|closer)_thread", "log"),
    (r"page_(cleaner|flush|flush_coordinator)_thread", "page_cleaner"),
    (r"(srv_)?(purge|worker)_thread|trx_purge.*", "purge"),
    (r"io_.*thread|io_handler_thread", "io"),
    (r"binlog_.*|.*binlog.*background.*", "binlog"),
    (r"thread_timer_notifier|statement_timer|timer.*", "timer"),
    (r"main", "main"),
)
_TOLD_CONNECTIONS = re.compile(r"one_connection|tp_one_connection|.*connection")


@dataclass(frozen=True)
class Told:
    """What the server tells of a thread: its name, as Performance Schema has it, and the number of
    its connection, None where it serves none."""

    name: str
    connection_id: int | None


@dataclass(frozen=True)
class Thread:
    """All that is known of a thread.

    ``ran`` says whether it ran inside the window, ``sockets`` whose sockets it was seen waiting on,
    ``waited_for_io`` that it was seen waiting for reads and writes it had begun before.
    """

    tid: int
    name: str
    started_ticks: int
    ran: bool
    told: Told | None = None
    sockets: frozenset[Use] = frozenset()
    waited_for_io: bool = False


@dataclass(frozen=True)
class Server:
    """What is known of a thread's server.

    ``ready_ticks`` is when it was about to take connections, in ticks since boot, None where that
    is not known. ``lists_connections`` says whether the server told of all its connections, among
    them ``own_connections``, the numbers of those that are known to be millrace's.
    """

    pid: int
    ready_ticks: int | None
    lists_connections: bool
    own_connections: frozenset[int] = frozenset()


def kind_of(thread: Thread, server: Server) -> Kind:
    """What a thread is for; see the module's text."""
    if thread.tid == server.pid:
        return "main"
    named = _named(thread)
    if named is not None:
        return named
    return _seen(thread) or _listed(thread, server) or _started(thread, server) or "background"


def _named(thread: Thread) -> Kind | None:
    own = _first(_OWN_NAMES, thread.name)
    if own not in (None, "background"):
        return own
    told = thread.told
    if told is None or _is_connection(told):
        return own
    return _first(_TOLD_NAMES, told.name.rpartition("/")[2]) or "background"


def _seen(thread: Thread) -> Kind | None:
    if "client" in thread.sockets:
        return "connection" if thread.ran else "background"
    if "own" in thread.sockets:
        return "observer"
    if "listening" in thread.sockets:
        return "main"
    return "io" if thread.waited_for_io else None


def _listed(thread: Thread, server: Server) -> Kind | None:
    told = thread.told
    if told is not None and _is_connection(told):
        if told.connection_id in server.own_connections:
            return "observer"
        return "connection" if thread.ran else "background"
    return "background" if server.lists_connections else None


def _started(thread: Thread, server: Server) -> Kind | None:
    late = server.ready_ticks is not None and thread.started_ticks >= server.ready_ticks
    return "connection" if late and thread.ran else None


def _is_connection(told: Told) -> bool:
    name = told.name.rpartition("/")[2]
    return told.connection_id is not None and _TOLD_CONNECTIONS.fullmatch(name) is not None


def _first(names: tuple[tuple[str, Kind], ...], name: str) -> Kind | None:
    return next((kind for pattern, kind in names if re.fullmatch(pattern, name)), None)
