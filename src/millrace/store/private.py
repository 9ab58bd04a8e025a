"""Close the files of a results store to other users, and refuse directories open to them.

A user who can open a file of an SQLite database for reading can lock it, and so end another user's
run. SQLite gives its write-ahead log and its index the permissions of the database.
"""

import contextlib
import os
import stat
from pathlib import Path

from millrace.errors import HostError, UserError
from millrace.shared_directories import followed, is_of_us, refuse_shared

_OF_SQLITE = ("", "-wal", "-shm", "-journal")
_DIRECTORIES = (".artefacts", ".events")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def refuse_open_directory(path: Path) -> None:
    """Raise UserError where another user could change a store, or put another one in its place.

    SQLite takes a journal beside the file for its own, and replaces the content by the journal's.
    """
    target, found = followed(path)
    if found is not None:
        link, owner = found
        raise UserError(
            f"{path}: {link} is a link of the user with the number {owner}, who could have "
            "millrace write any file",
            hint="remove the link, or name a store in a directory of your own with --store",
        )
    for directory in {path.parent, target.parent}:
        try:
            refuse_shared(directory, "--store")
        except HostError as error:
            raise UserError(
                f"{path}: no results store can be there: {error.message}", hint=error.hint
            ) from None


def refuse_files_of_others(path: Path) -> None:
    """Raise UserError where a store's file, or a journal beside it, belongs to another user."""
    target = os.path.realpath(path)
    for file in (Path(target + ending) for ending in _OF_SQLITE):
        try:
            status = file.lstat()
        except OSError:
            continue
        if not is_of_us(status):
            raise UserError(
                f"{file}: belongs to the user with the number {status.st_uid}, who could change "
                "the results in it",
                hint="copy the store, so that the copy is yours, or name another with --store PATH",
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
