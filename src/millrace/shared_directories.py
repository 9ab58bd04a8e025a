"""Refuses directories in which other users of the host could plant files."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from millrace.errors import HostError


def refuse_shared(place: Path, variable: str) -> None:
    """Raise HostError for a directory in which another user could replace millrace's files.

    Where millrace is root this holds for all that it lies in, too: who may rename one of them may
    have root write elsewhere. An ordinary user's servers run as that user, and nobody gains by it.
    Where ``place`` is not there yet, root must not make it where another user could be quicker.
    ``variable`` is the one that names another place.
    """
    is_root = os.geteuid() == 0
    resolved = place.resolve()
    if not is_root and not resolved.exists():
        return
    while not resolved.exists():
        resolved = resolved.parent
    for directory in (resolved, *resolved.parents) if is_root else (resolved,):
        status = directory.stat()
        if is_root and status.st_uid != 0:
            problem = f"the user with the number {status.st_uid}, who owns it,"
            mend = f"chown root {shlex.quote(str(directory))}"
        elif may_others_write(status) and not status.st_mode & stat.S_ISVTX:
            problem = "every user of this host" if status.st_mode & stat.S_IWOTH else "its group"
            mend = f"chmod go-w {shlex.quote(str(directory))}"
        else:
            continue
        raise HostError(
            f"{directory}: {problem} could replace millrace's files there",
            hint=f"close it with: {mend}; or name another place with {variable}",
        )


def is_own(status: os.stat_result) -> bool:
    """Return whether nobody but this process's user, and root, can have written to a file."""
    is_plain = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_plain and not may_others_write(status)


def may_others_write(status: os.stat_result) -> bool:
    """Return whether a mode lets others write: to root a group is others, too."""
    others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 else 0)
    return bool(status.st_mode & others)
