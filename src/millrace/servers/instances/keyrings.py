"""Separate the kernel's keys of servers: a server has neither root's nor another server's.

The keyrings of a user id outlive its processes, so the next instance with that id would find the
keys of an earlier server. Where the kernel has no keys or denies them to this process (as most
containers do), a server has none either.
"""

from __future__ import annotations

import contextlib
import os

from millrace.system_calls import call

_KEYCTL = 250 if os.uname().machine == "x86_64" else 219  # the number of aarch64 and newer ones
_JOIN_SESSION, _CLEAR, _GET_PERSISTENT = 1, 7, 22
_OF_THIS_PROCESS, _OF_THE_USER, _OF_THE_USERS_SESSIONS = -2, -4, -5


def leave_session() -> None:
    """Give this thread, and the processes it starts, a session keyring of its own."""
    with contextlib.suppress(OSError):
        call(_KEYCTL, _JOIN_SESSION, None)


def clear() -> None:
    """Remove the keys of this thread's real and effective user id."""
    for keyring in (_OF_THE_USER, _OF_THE_USERS_SESSIONS):
        with contextlib.suppress(OSError):
            call(_KEYCTL, _CLEAR, keyring)
    with contextlib.suppress(OSError):  # many kernels have no persistent keyrings
        call(_KEYCTL, _CLEAR, call(_KEYCTL, _GET_PERSISTENT, -1, _OF_THIS_PROCESS))
