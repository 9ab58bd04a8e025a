"""Classify the states of sampled threads, and the targets on which they wait."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from millrace.databases.monitoring import FileKinds
from millrace.host import syscalls
from millrace.host.sockets import Sockets, Use

StateClass = Literal[
    "running", "lock", "log_flush", "log_write", "fsync", "data_read", "data_write", "network",
    "network_send", "sleep", "page_fault", "io_queue", "other",
]  # fmt: skip

CLIENT_SOCKET = "socket of a client"
OWN_SOCKET = "socket of millrace"
LISTENING_SOCKET = "listening socket"

_RUNNING = "R"
_NO_CALL = -1
_BLOCKED = frozenset("SD")
_NO_DESCRIPTORS = "[no descriptors]"  # instead of a link, where a call only waits for a time

_SOCKETS: Mapping[Use, str] = {
    "client": CLIENT_SOCKET, "own": OWN_SOCKET, "listening": LISTENING_SOCKET,
}  # fmt: skip

_CLASSES: Mapping[str, StateClass] = {
    "lock": "lock",
    "sleep": "sleep",
    "send": "network_send",
    "receive": "network",
    "queue": "io_queue",
}


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
    if (use := context.sockets.use(link)) is not None:
        return _SOCKETS[use]
    if not link.startswith("/"):
        return link.partition(":[")[0]  # pipe:[4711], anon_inode:[eventpoll]
    return context.files.kind(link)


def _by_call(call: str, target: str | None, context: Context) -> StateClass:
    if call == "msync":
        return "log_flush"  # the only files that servers map for writing are logs
    match syscalls.uses().get(call):
        case "sync":
            return "log_flush" if target in context.files.commit_logs else "fsync"
        case "write":
            return _by_written(target, context)
        case "read":
            return "network" if target in _SOCKETS.values() else "data_read"
        case use:
            return _CLASSES.get(use or "", "other")


def _by_written(target: str | None, context: Context) -> StateClass:
    if target in _SOCKETS.values():
        return "network_send"
    if target not in context.files.commit_logs:
        return "data_write"
    return "log_flush" if target in context.written_through else "log_write"
