"""Close the files of a results store to other users, and refuse directories open to them.

A user who can open a file of an SQLite database for reading can lock it, and so end another user's
run. SQLite gives its write-ahead log and its index the permissions of the database.
"""

import contextlib
import os
import stat
from pathlib import Path

from millrace.errors import UserError

_OF_SQLITE = ("", "-wal", "-shm", "-journal")
_DIRECTORIES = (".artefacts", ".events")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def refuse_open_directory(path: Path) -> None:
    """Raise UserError where every user may add files to the directory of a store.

    SQLite takes a journal beside the file for its own, and replaces the content by the journal's.
    """
    for directory in {path.parent, Path(os.path.realpath(path)).parent}:
        with contextlib.suppress(OSError):  # it is made later, or refused
            if directory.stat().st_mode & stat.S_IWOTH:
                raise UserError(
                    f"{path}: every user of this host could change a results store in {directory}",
                    hint="name one in a directory of your own (mkdir -m 700) with --store, and "
                    "move there what is here already",
                )


def make_file(path: Path) -> None:
    """Make a new store's file for this user alone; SQLite reports errors."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.realpath(path), flags, 0o600))


def make_directory(path: Path) -> None:
    """Make a directory that only this user can enter, unless it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def close_store(path: Path) -> None:
    """Remove the rights of other users from a store's files and directories."""
    real = os.path.realpath(path)
    for ending in _OF_SQLITE:
        _close(real + ending, stat.S_IFREG)
    for ending in _DIRECTORIES:
        _close(f"{path}{ending}", stat.S_IFDIR)


def _close(name: str, kind: int) -> None:
    # Closing any other descriptor of the database would release this process's locks.
    try:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(handle)
        is_own = stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid()
        if is_own and status.st_mode & _OF_OTHERS:
            with contextlib.suppress(OSError):  # a file system that is read-only, or has no modes
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(status.st_mode) & ~_OF_OTHERS)
    finally:
        os.close(handle)
