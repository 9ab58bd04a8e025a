"""Close directories in which a server may have put anything, and open single files there."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def close_tree(directory: Path) -> None:
    """Take ownership of a directory and all directories below it, and deny others access.

    A server may have let another user into a directory, who still has a descriptor of it: closing
    the top does not shut that user out. Each directory is therefore closed before its names are
    read, and is opened in one that is closed already. After that nobody can replace a name, so
    paths below ``directory`` are reliable. No link is followed. Raise OSError.
    """
    _walk(directory, _close)


def give_tree(directory: Path, uid: int, gid: int) -> None:
    """Give a closed directory and everything below it to a user.

    Leave out files with several names (hard links), which may be anybody's. Raise OSError.
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
    """Make a user, and the group of the same number, the owner of a file, directory or link."""
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)


def open_without_links(path: str | Path, flags: int) -> int:
    """Open exactly this file, without blocking: a link that a server left may lead anywhere."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _close(descriptor: int) -> list[str]:
    os.fchown(descriptor, os.geteuid(), os.getegid())
    os.fchmod(descriptor, 0o700)
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _walk(directory: Path, visit: Callable[[int], list[str]]) -> None:
    """Visit a directory and all below it, each before those in it.

    ``visit`` takes a descriptor and returns the names of the subdirectories to visit. Only two
    descriptors are open at a time, whatever the depth and number of directories.
    """
    at = os.open(directory, _OPEN_DIRECTORY)
    try:
        waiting = [visit(at)]  # names of directories, a list a level
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
