"""Classify the sockets on which a server's threads wait, by the process at the other end.

A connected socket belongs to a client. If its other end is in this process, the client is millrace
itself, which observes the server. A listening socket has no session yet. Sockets are identified by
their inode, which the link /proc/PID/fd/N also contains: ``socket:[inode]``.
"""

import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millrace.host import procfs

Use = Literal["client", "own", "listening"]

_LINK = re.compile(r"socket:\[(\d+)\]")
_LISTENING_TCP, _CONNECTED_TCP = "0A", "01"
_ACCEPTS = 0x10000  # __SO_ACCEPTCON
_UNIX_ROW = re.compile(
    r"[0-9a-f]+: [0-9A-F]{8} [0-9A-F]{8} (?P<flags>[0-9A-F]{8}) [0-9A-F]{4} [0-9A-F]{2} +"
    r"(?P<inode>\d+)( .*)?",
    re.ASCII,
)

# sock_diag(7): constants of linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x1 | 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_ALL_STATES, _LISTENING, _NO_COOKIE = 0xFFFFFFFF, 1 << 10, 0xFFFFFFFF
_SHOW_NOTHING, _SHOW_PEER = 0x0, 0x4
_PEER = 2
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBHIIIII")
_MESSAGE = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")
_INODE = struct.Struct("=I")
_ANSWER_BYTES = 1 << 16
_ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True)
class Sockets:
    """Inodes of listening sockets, and of sockets whose other end is in this process."""

    listening: frozenset[int]
    own: frozenset[int]

    def use(self, link: str) -> Use | None:
        """Return the use of a socket by its link; None if the link is not to a socket."""
        inode = inode_of(link)
        if inode is None:
            return None
        if inode in self.listening:
            return "listening"
        return "own" if inode in self.own else "client"


def inode_of(link: str) -> int | None:
    """Return the inode from the link of a socket's descriptor; None for other links."""
    match = _LINK.fullmatch(link)
    return int(match[1]) if match else None


def listening(pid: int) -> frozenset[int]:
    """Return the inodes of listening sockets in the network namespace of a process."""
    net = f"/proc/{pid}/net"
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        found |= listening_tcp((procfs.read_or_none(f"{net}/{name}") or b"").decode())
    try:
        found |= {_inode(body) for body in _unix_sockets(_LISTENING, _SHOW_NOTHING)}
    except OSError:  # a kernel without CONFIG_UNIX_DIAG
        text = (procfs.read_or_none(f"{net}/unix") or b"").decode(errors="replace")
        found |= listening_unix(text)
    return frozenset(found)


def listening_tcp(text: str) -> set[int]:
    """Return the inodes of the listening sockets in /proc/net/tcp or tcp6."""
    rows = (line.split() for line in text.splitlines()[1:])
    return {int(row[9]) for row in rows if len(row) > 9 and row[3] == _LISTENING_TCP}


def accepted_tcp(text: str, port: int) -> dict[int, int]:
    """Return inodes of connected sockets at ``port``, by remote port, from /proc/net/tcp(6)."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {
        int(row[2].rpartition(":")[2], 16): int(row[9])
        for row in rows
        if len(row) > 9 and row[3] == _CONNECTED_TCP
        if int(row[1].rpartition(":")[2], 16) == port
    }


def listening_unix(text: str) -> set[int]:
    """Return the inodes of listening sockets in /proc/net/unix; names may contain newlines."""
    rows = filter(None, map(_UNIX_ROW.fullmatch, text.split("\n")))
    return {int(row["inode"]) for row in rows if int(row["flags"], 16) & _ACCEPTS}


def own() -> frozenset[int]:
    """Return the inodes of the peers of this process's UNIX sockets. Raise OSError."""
    ours = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - quick, at a mark
        try:
            inode = inode_of(str(Path(f"/proc/self/fd/{name}").readlink()))
        except OSError:
            continue  # the descriptor of the listed directory, which is closed now
        if inode is not None:
            ours.add(inode)
    others = peers()
    return frozenset(others[inode] for inode in ours if inode in others)


def peers() -> Mapping[int, int]:
    """Return the peer's inode for each connected UNIX socket's inode. Raise OSError."""
    pairs = (peer(body) for body in _unix_sockets(_ALL_STATES, _SHOW_PEER))
    return dict(pair for pair in pairs if pair is not None)


def _unix_sockets(states: int, show: int) -> Iterator[bytes]:
    """Yield the kernel's messages about UNIX sockets in these states. Raise OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(_ANSWER_LIMIT_S)
        request = _REQUEST.pack(socket.AF_UNIX, 0, 0, states, 0, show, _NO_COOKIE, _NO_COOKIE)
        size = _HEADER.size + len(request)
        asked.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            for kind, body in messages(asked.recv(_ANSWER_BYTES)):
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    code = -int(struct.unpack_from("=i", body)[0])
                    raise OSError(code, f"sock_diag: {os.strerror(code)}")
                yield body


def messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each netlink message in a reply."""
    at = 0
    while at + _HEADER.size <= len(answer):
        size, kind, *_ = _HEADER.unpack_from(answer, at)
        if size < _HEADER.size:
            return
        yield kind, answer[at + _HEADER.size : at + size]
        at += _aligned(size)


def _inode(body: bytes) -> int:
    """Return the inode of the UNIX socket that a message describes."""
    return int(_MESSAGE.unpack_from(body)[4])


def peer(body: bytes) -> tuple[int, int] | None:
    """Return the inodes of a message's UNIX socket and of its peer; None without a peer."""
    if len(body) < _MESSAGE.size:
        return None
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size:
            return None
        if kind == _PEER and size >= _ATTRIBUTE.size + _INODE.size:
            return _inode(body), int(_INODE.unpack_from(body, at + _ATTRIBUTE.size)[0])
        at += _aligned(size)
    return None


def _aligned(size: int) -> int:
    return (size + 3) & ~3
