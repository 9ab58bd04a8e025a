"""Decide whether a process other than the right server may listen at a Unix socket.

millrace sends a plain-text password over a socket only if nobody else can have created the socket
than root, this process's user, and owners of the socket's directories that these two allowed. The
load generator has the same rules and messages (``account.rs``); a test compares both.
"""

import errno
import os
import socket as sockets
import stat
import struct
from pathlib import Path

from millrace.shared_directories import on_the_way

_UCRED = struct.Struct("3i")  # unix(7), SO_PEERCRED: process, user, group
_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def peer_pid(connected: sockets.socket) -> int:
    """Return the pid of the process that listens at the other end of a Unix socket."""
    return _credentials(connected)[0]


def doubt(path: Path, connected: sockets.socket) -> str | None:
    """Return why a wrong server may listen at the absolute ``path``; None if that is impossible."""
    try:
        return _judge(path, _credentials(connected)[1])
    except OSError as error:
        if error.errno == errno.ELOOP:
            return f"{path} leads through too many links"
        return f"{path} cannot be looked at: {error.strerror}"


def _credentials(connected: sockets.socket) -> tuple[int, int]:
    """Return the pid and the uid at the other end of a Unix socket."""
    sent = connected.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(sent)
    return pid, uid & 0xFFFFFFFF


def _judge(path: Path, listener: int) -> str | None:
    trusted = {_ROOT, os.geteuid()}
    for entry, status in on_the_way(path):
        place = entry.parent
        mode = place.lstat().st_mode
        if not mode & _WRITABLE_BY_OTHERS:
            # Only a trusted user could create entries here, and so chose the owner of each entry.
            if not stat.S_ISLNK(status.st_mode):
                trusted.add(status.st_uid)
        elif not mode & stat.S_ISVTX or status.st_uid not in trusted:
            return f"other users can write {place}, and {entry} belongs to the user {status.st_uid}"
    if listener not in trusted:
        return (
            f"the user {listener} listens there, who owns neither the socket nor a directory "
            "above it"
        )
    return None
