"""Deny other users access to directories that a server filled, and open single files there."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def close_tree(directory: Path) -> None:
    """Take ownership of a directory tree, and deny other users access to it.

    A server may have let another user into a directory who still has a file descriptor of it.
    Closing only the top would not shut that user out. Each directory is therefore closed before its
    entries are read, and is opened through a parent that is closed already. Afterwards nobody else
    can replace an entry, so paths below ``directory`` are reliable. Symbolic links are not
    followed. Raise OSError.
    """
    _walk(directory, _close)


def give_tree(directory: Path, uid: int, gid: int) -> None:
    """Make a user the owner of a closed directory tree.

    Skip files with several hard links, which may belong to somebody else. Raise OSError.
    """

    def give(descriptor: int) -> list[str]:
        below = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    below.append(entry.name)
                elif status.st_nlink == 1:
                    os.chown(entry.name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
        os.fchown(descriptor, uid, gid)
        return below

    _walk(directory, give)


def give(path: Path, uid: int | None) -> None:
    """Make a user, and the group with the same id, the owner of a file, directory or link."""
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)


def open_without_links(path: str | Path, flags: int) -> int:
    """Open a file without following a symbolic link and without blocking (as an opener)."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _close(descriptor: int) -> list[str]:
    os.fchown(descriptor, os.geteuid(), os.getegid())
    os.fchmod(descriptor, 0o700)
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _walk(directory: Path, visit: Callable[[int], list[str]]) -> None:
    """Call ``visit`` for a directory and all directories below it, parents first.

    ``visit`` takes a file descriptor and returns the names of the subdirectories to visit. Only two
    file descriptors are open at a time, whatever the depth and number of directories.
    """
    at = os.open(directory, _OPEN_DIRECTORY)
    try:
        waiting = [visit(at)]  # directory names, one list per level
        while waiting[0] or len(waiting) > 1:
            down = bool(waiting[-1])
            following = os.open(waiting[-1].pop() if down else "..", _OPEN_DIRECTORY, dir_fd=at)
            os.close(at)
            at = following
            if down:
                waiting.append(visit(at))
            else:
                waiting.pop()
    finally:
        os.close(at)
