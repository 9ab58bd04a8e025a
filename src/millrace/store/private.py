"""Restrict the files of a results store to its owner, and refuse directories others can write to.

A user who can open an SQLite database for reading can also lock it, and so make another user's run
fail. SQLite gives its write-ahead log and index the permissions of the database file.
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
    """Raise UserError if another user could change or replace a store through its directory.

    SQLite applies any journal that it finds next to the database file, whoever wrote the journal.
    """
    target, found = followed(path)
    if found is not None:
        link, owner = found
        raise UserError(
            f"{path}: {link} is a symbolic link of uid {owner}, who could make millrace overwrite "
            "any of your files",
            hint="remove the link, or choose a store in a directory of your own with --store",
        )
    for directory in {path.parent, target.parent}:
        try:
            refuse_shared(directory, "--store")
        except HostError as error:
            raise UserError(
                f"{path}: not safe for a results store: {error.message}", hint=error.hint
            ) from None


def refuse_files_of_others(path: Path) -> None:
    """Raise UserError if the database file or one of its journals belongs to another user."""
    target = os.path.realpath(path)
    for file in (Path(target + ending) for ending in _OF_SQLITE):
        try:
            status = file.lstat()
        except OSError:
            continue
        if not is_of_us(status):
            raise UserError(
                f"{file}: belongs to uid {status.st_uid}, who could change the results",
                hint="make your own copy of the store, or choose another store with --store PATH",
            )


def make_file(path: Path) -> None:
    """Create the database file with mode 0600; ignore errors, which SQLite reports later."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.realpath(path), flags, 0o600))


def make_directory(path: Path) -> None:
    """Create a directory with mode 0700, unless it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def close_store(path: Path) -> None:
    """Remove the permissions of group and others from a store's files and directories."""
    real = os.path.realpath(path)
    for ending in _OF_SQLITE:
        _close(real + ending, stat.S_IFREG)
    for ending in _DIRECTORIES:
        _close(f"{path}{ending}", stat.S_IFDIR)


def _close(name: str, kind: int) -> None:
    # O_PATH: closing a normal descriptor of the database would release this process's locks.
    try:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(handle)
        is_own = stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid()
        if is_own and status.st_mode & _OF_OTHERS:
            with contextlib.suppress(OSError):  # a read-only file system, or one without modes
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(status.st_mode) & ~_OF_OTHERS)
    finally:
        os.close(handle)
