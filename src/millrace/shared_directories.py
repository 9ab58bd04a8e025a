"""Refuse directories in which other users of the host could plant files."""

import errno
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from millrace.errors import HostError

_MOST_LINKS = 40  # in one path, the kernel's own limit
_ROOT = 0
_ACCESS_LIST = "system.posix_acl_access"


def refuse_shared(place: Path, variable: str, *, has_secret_names: bool = False) -> None:
    """Raise HostError for a directory in which another user could plant or replace files.

    A group counts as another user, unless it is the user's private group. As root, also check all
    parent directories: a user who can rename a parent could make root write elsewhere. If ``place``
    does not exist yet, root checks its nearest existing parent, where another user could create it
    first. A symbolic link of another user on the path is refused, too.

    In a sticky directory such as /tmp, nobody can replace another user's file, but everybody can
    plant a file whose name is known. So a sticky directory may be a parent, but ``place`` itself
    only with ``has_secret_names``. ``variable`` is the environment variable that can set another
    path.
    """
    _refuse_links_of_others(place, variable)
    is_root = os.geteuid() == 0
    resolved = place.resolve()
    if not is_root and not resolved.exists():
        return
    may_be_sticky = has_secret_names or not resolved.exists()
    while not resolved.exists():
        resolved = resolved.parent
    for directory in (resolved, *resolved.parents) if is_root else (resolved,):
        status = directory.stat()
        if not is_of_us(status):
            problem = f"its owner, uid {status.st_uid},"
            mend = f"remove {directory}"  # its files cannot be trusted either
        elif (may_others_write(status) or _has_access_list(directory, status)) and not (
            may_be_sticky and status.st_mode & stat.S_ISVTX
        ):
            problem = "every user of this host" if status.st_mode & stat.S_IWOTH else "its group"
            mend = f"close it with: chmod go-w {shlex.quote(str(directory))}"
            if status.st_mode & stat.S_ISVTX:  # /tmp must stay writable for other users
                mend = "use a directory of your own in it (mkdir -m 700)"
        else:
            may_be_sticky = True
            continue
        raise HostError(
            f"{directory}: {problem} could replace millrace's files there",
            hint=f"{mend}, or choose another directory with {variable}",
        )


def on_the_way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each directory and link on a path; OSError if one is missing or links form a loop."""
    place = Path("/")
    left = _parts(path)
    n_links = 0
    while left:
        name = left.pop()
        if name == "..":
            place = place.parent
            continue
        entry = place / name
        status = entry.lstat()
        yield entry, status
        if not stat.S_ISLNK(status.st_mode):
            place = entry
            continue
        n_links += 1
        if n_links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = entry.readlink()
        if target.is_absolute():
            place = Path("/")
        left += _parts(target)


def is_own(status: os.stat_result) -> bool:
    """Return whether only this process's user and root can write to a regular file."""
    is_plain = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_plain and not may_others_write(status)


def is_closed(status: os.stat_result) -> bool:
    """Return whether only this process's user and root can add files to a directory."""
    return is_of_us(status) and not may_others_write(status)


def may_others_write(status: os.stat_result) -> bool:
    """Return whether other users may write; a group counts, unless it is the private group."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private(status.st_gid)


def refuse_file_of_others(path: Path) -> None:
    """Raise HostError for a file that another user could have written or replaced.

    Raise OSError if it does not exist. Its directory and the directory above are checked too,
    because a user who can write there can replace the file.
    """
    for place in (path, path.parent, path.parent.parent):
        status = place.lstat()
        is_kind = stat.S_ISREG if place == path else stat.S_ISDIR
        if is_kind(status.st_mode) and is_closed(status) and not _has_access_list(place, status):
            continue
        raise HostError(
            f"{place}: another user could have written {path.name}, which tells millrace what "
            "programs to run",
            hint=f"remove {path.parent} and add it again; close its directory with: chmod go-w "
            f"{shlex.quote(str(path.parent.parent))}",
        )


def followed(path: Path) -> tuple[Path, tuple[Path, int] | None]:
    """Return the target of a path, and the first link of another user on it with its owner's uid.

    If a name is missing, the target is the path up to that name. Each name is read once, because
    another user may change a link between two reads.
    """
    place, found = Path("/"), None
    try:
        for entry, status in on_the_way(path.absolute()):
            if not stat.S_ISLNK(status.st_mode):
                place = entry
            elif found is None and not is_of_us(status):
                found = entry, status.st_uid
    except OSError as error:
        place = Path(error.filename)
    return place, found


def _is_private(gid: int) -> bool:
    """Return whether a group is the private group of this user; always False for root.

    A private group has the name of its user and no other members.
    """
    if os.geteuid() == _ROOT:
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return (
        gid == user.pw_gid
        and group.gr_name == user.pw_name
        and set(group.gr_mem) <= {user.pw_name}
        and all(each.pw_uid == user.pw_uid for each in pwd.getpwall() if each.pw_gid == gid)
    )


def _has_access_list(place: Path, status: os.stat_result) -> bool:
    """Return whether the group's write permission may come from an access list (ACL)."""
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        return bool(os.getxattr(place, _ACCESS_LIST, follow_symlinks=False))
    except OSError:  # no list, or a file system without access lists
        return False


def is_of_us(status: os.stat_result) -> bool:
    """Return whether a file belongs to this process's user or root."""
    return status.st_uid in (_ROOT, os.geteuid())


def _refuse_links_of_others(place: Path, variable: str) -> None:
    _, found = followed(place)
    if found is not None:
        link, owner = found
        raise HostError(
            f"{link}: this symbolic link belongs to uid {owner}, who could redirect millrace's "
            "files to any place",
            hint=f"remove it, or choose another directory with {variable}",
        )


def _parts(path: Path) -> list[str]:
    """Return the names in a path, the last one first."""
    return [part for part in reversed(path.parts) if part != path.anchor]
