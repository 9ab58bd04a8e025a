"""Classify the states of sampled threads, and the purpose of the files on which they wait.

A state comes from ``millrace-load threads``: the scheduler's letter, the system call, and the
target, which is the link of the call's descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

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

REDO_LOG = "redo log"
BINARY_LOG = "binary log"
CLIENT_SOCKET = "socket of a client"
OWN_SOCKET = "socket of millrace"
LISTENING_SOCKET = "listening socket"

_RUNNING = "R"
_NO_CALL = -1
_BLOCKED = frozenset("SD")
_NO_DESCRIPTORS = "[no descriptors]"  # the target of a call that only waits for a time

# The logs for which commits wait.
_LOGS = frozenset({REDO_LOG, BINARY_LOG, "Aria log", "RocksDB log", "log of the coordinator"})
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

# The kinds of a server's files, by the last part of their names; the first match counts.
_FILES: tuple[tuple[str, str], ...] = (
    (r"ib_logfile\d+|#?ib_redo\d+(_tmp)?", REDO_LOG),
    (r".*\.dblwr|.*\.bdblwr", "doublewrite buffer"),
    (r"ibdata\d+", "system tablespace"),
    (r"ibtmp\d+|temp_\d+\.ibt|#sql.*|(ML|MY|ib)\w{6}|M[LY]fd=\d+|#\d+", "temporary file"),
    (r"undo_?\d+|.*\.ibu", "undo tablespace"),
    (r"aria_log\.\d+", "Aria log"),
    (r"\d{6,}\.log", "RocksDB log"),
    (r"tc\.log", "log of the coordinator"),
    (r".*-relay-bin\.\d+|.*relay.*\.\d{6}", "relay log"),
    (r"(.*-bin|binlog|.*binlog.*)\.\d{6}", BINARY_LOG),
    (r"(.*-bin|binlog)\.(index|state)", "index of the binary log"),
    (r".*\.ibd|.*\.isl", "data file"),
    (r".*\.(MYD|MYI|MAD|MAI|CSV|ARZ)", "data file"),
    (r".*\.(frm|sdi|par|opt)", "table definition"),
    (r".*\.(err|log)", "text log"),
)
_DELETED = " (deleted)"
_BINARY_LOG_NUMBER = re.compile(r"\.\d{6,}$")


@dataclass(frozen=True)
class State:
    """A sampled state.

    ``syscall`` is the number of the call, -1 where a thread is blocked in none, None where it runs.
    """

    state: str
    syscall: int | None
    target: str | None


@dataclass(frozen=True)
class Surroundings:
    """The context in which targets are classified.

    ``sockets``: the sockets by their users. ``binary_logs``: the names of binary logs, without
    their numbers. ``written_through``: the logs whose writes wait for the disk.
    """

    sockets: Sockets
    binary_logs: Collection[str] = ()
    written_through: Collection[str] = ()
    architecture: str | None = None


@dataclass(frozen=True)
class Doing:
    """A classified state: its class, the name of the call and the kind of the target."""

    state_class: StateClass
    syscall: str | None
    target: str | None


def doing(state: State, around: Surroundings) -> Doing:
    """Classify the activity of a thread at the moment of a sample."""
    if state.state == _RUNNING:
        return Doing("running", None, None)
    if state.syscall is None or state.syscall == _NO_CALL:
        return Doing("page_fault" if state.state in _BLOCKED else "other", None, None)
    number = state.syscall
    call = syscalls.names(around.architecture).get(number, f"syscall {number}")
    if state.target == _NO_DESCRIPTORS:
        return Doing("sleep", call, None)
    target = None if state.target is None else target_of(state.target, around)
    return Doing(_by_call(call, target, around), call, target)


def target_of(link: str, around: Surroundings) -> str:
    """Return the kind of a descriptor's target; an unknown link stands for itself."""
    match around.sockets.use(link):
        case "client":
            return CLIENT_SOCKET
        case "own":
            return OWN_SOCKET
        case "listening":
            return LISTENING_SOCKET
    if not link.startswith("/"):
        return link.partition(":[")[0]  # pipe:[4711], anon_inode:[eventpoll]
    name = PurePosixPath(link.removesuffix(_DELETED)).name
    if binary_log(name) in around.binary_logs:
        return BINARY_LOG
    return next((what for pattern, what in _FILES if re.fullmatch(pattern, name)), "other file")


def binary_log(name: str) -> str:
    """Return the base name of a binary log: without its directory and its number."""
    return _BINARY_LOG_NUMBER.sub("", PurePosixPath(name).name)


def _by_call(call: str, target: str | None, around: Surroundings) -> StateClass:
    if call in _SYNC:
        return "log_flush" if target in _LOGS else "fsync"
    if call == "msync":
        return "log_flush"  # the only files that servers map for writing are logs
    if call in _WRITE:
        return _by_written(target, around)
    if call in _READ:
        return "network" if target in _SOCKETS else "data_read"
    return next((found for calls, found in _CALLS if call in calls), "other")


def _by_written(target: str | None, around: Surroundings) -> StateClass:
    if target in _SOCKETS:
        return "network_send"
    if target not in _LOGS:
        return "data_write"
    return "log_flush" if target in around.written_through else "log_write"
