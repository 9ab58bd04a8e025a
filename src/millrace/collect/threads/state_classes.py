"""Classify the states of sampled threads, and the targets on which they wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from millrace.databases.monitoring import FileKinds
from millrace.host import syscalls
from millrace.host.sockets import Sockets

StateClass = Literal[
    "running",
    "lock",
    "log_flush",
    "log_write",
    "fsync",
    "data_read",
    "data_write",
    "network",
    "network_send",
    "sleep",
    "page_fault",
    "io_queue",
    "other",
]

CLIENT_SOCKET = "socket of a client"
OWN_SOCKET = "socket of millrace"
LISTENING_SOCKET = "listening socket"

_RUNNING = "R"
_NO_CALL = -1
_BLOCKED = frozenset("SD")
_NO_DESCRIPTORS = "[no descriptors]"  # instead of a link, where a call only waits for a time

_SOCKETS = frozenset({CLIENT_SOCKET, OWN_SOCKET, LISTENING_SOCKET})

_LOCK = frozenset({"futex", "futex_wait", "futex_waitv", "semop", "semtimedop", "flock", "fcntl"})
_SYNC = frozenset({"fsync", "fdatasync", "sync_file_range", "sync", "syncfs"})
_READ = frozenset({"read", "readv", "pread64", "preadv", "preadv2", "readahead"})
_WRITE = frozenset(
    {"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "copy_file_range"}
)
_SEND = frozenset({"sendto", "sendmsg", "sendmmsg"})
_RECEIVE = frozenset({"recvfrom", "recvmsg", "recvmmsg", "accept", "accept4", "connect"})
_POLL = frozenset(
    {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"}
)
_SLEEP = frozenset({"nanosleep", "clock_nanosleep"})
_QUEUE = frozenset({"io_getevents", "io_pgetevents", "io_submit", "io_uring_enter"})
_CALLS: tuple[tuple[frozenset[str], StateClass], ...] = (
    (_LOCK, "lock"),
    (_SLEEP, "sleep"),
    (_SEND, "network_send"),
    (_RECEIVE | _POLL, "network"),
    (_QUEUE, "io_queue"),
)


@dataclass(frozen=True)
class Context:
    """The server's sockets and files, by which targets are classified.

    ``written_through`` are the kinds of files whose writes wait for the disk.
    """

    sockets: Sockets
    files: FileKinds
    written_through: Collection[str] = ()
    architecture: str | None = None


@dataclass(frozen=True)
class Activity:
    """A classified state: its class, the name of the call and the kind of the target."""

    state_class: StateClass
    syscall: str | None
    target: str | None


def classify(state: str, syscall: int | None, link: str | None, context: Context) -> Activity:
    """Classify the activity of a thread at the moment of a sample.

    ``state`` is the scheduler's letter; ``syscall`` is the number of the call, -1 where the thread
    is blocked in none, None where it runs; ``link`` is that of the call's descriptor.
    """
    if state == _RUNNING:
        return Activity("running", None, None)
    if syscall is None or syscall == _NO_CALL:
        return Activity("page_fault" if state in _BLOCKED else "other", None, None)
    call = syscalls.names(context.architecture).get(syscall, f"syscall {syscall}")
    if link == _NO_DESCRIPTORS:
        return Activity("sleep", call, None)
    target = None if link is None else target_kind(link, context)
    return Activity(_by_call(call, target, context), call, target)


def target_kind(link: str, context: Context) -> str:
    """Return the kind of a descriptor's target; an unknown link stands for itself."""
    match context.sockets.use(link):
        case "client":
            return CLIENT_SOCKET
        case "own":
            return OWN_SOCKET
        case "listening":
            return LISTENING_SOCKET
    if not link.startswith("/"):
        return link.partition(":[")[0]  # pipe:[4711], anon_inode:[eventpoll]
    return context.files.kind(link)


def _by_call(call: str, target: str | None, context: Context) -> StateClass:
    if call in _SYNC:
        return "log_flush" if target in context.files.commit_logs else "fsync"
    if call == "msync":
        return "log_flush"  # the only files that servers map for writing are logs
    if call in _WRITE:
        return _by_written(target, context)
    if call in _READ:
        return "network" if target in _SOCKETS else "data_read"
    return next((found for calls, found in _CALLS if call in calls), "other")


def _by_written(target: str | None, context: Context) -> StateClass:
    if target in _SOCKETS:
        return "network_send"
    if target not in context.files.commit_logs:
        return "data_write"
    return "log_flush" if target in context.written_through else "log_write"
