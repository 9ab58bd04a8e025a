"""Locate millrace's directories on this machine.

========= ====================== ============================= ==============================
place     environment variable   as root                       as an ordinary user
========= ====================== ============================= ==============================
cache     ``MILLRACE_CACHE``     ``/var/cache/millrace``       ``$XDG_CACHE_HOME/millrace``
state     ``MILLRACE_STATE``     ``/var/lib/millrace``         ``$XDG_STATE_HOME/millrace``
work      ``MILLRACE_WORK``      ``<state>/work``              ``<state>/work``
snapshots ``MILLRACE_SNAPSHOTS`` ``<state>/snapshots``         ``<state>/snapshots``
========= ====================== ============================= ==============================

cache: downloads and unpacked servers, shared by all experiments. state: the results store and the
servers a user added. work: data directories of running instances; put it on the disk under test.
snapshots: loaded data directories, reused by later trials; ``<work>/snapshots`` where
work and state are on different file systems, so that a copy can share blocks with its snapshot.
Root's places are not under root's home, because servers run as an unprivileged user who must be
able to reach them.

A path from a variable is checked at each use: it must be a directory, or millrace must be able to
create it. Other users must not be able to write to the directories, because millrace runs and
trusts the files in them (see ``shared_directories``). Work is checked later, before its use. It may
be a sticky directory such as /tmp, because the names of instances cannot be predicted.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from millrace.errors import HostError, MillraceError, UnusablePlace
from millrace.shared_directories import refuse_shared

_NO_RIGHTS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def cache_dir() -> Path:
    """Return the directory of downloads and servers (may not exist); HostError if unsafe."""
    return _unshared("MILLRACE_CACHE")


def state_dir() -> Path:
    """Return the directory of results and added servers (may not exist); HostError if unsafe."""
    return _unshared("MILLRACE_STATE")


def work_dir() -> Path:
    """Return the directory of the instances' data (may not exist)."""
    return _named("MILLRACE_WORK") or _state() / "work"


def snapshots_dir() -> Path:
    """Return the directory of snapshots (may not exist); HostError if unsafe."""
    return _unshared("MILLRACE_SNAPSHOTS")


def default_store() -> Path:
    """Return the default results store: ``MILLRACE_STORE``, or a file in the state directory."""
    return _named("MILLRACE_STORE", file=True) or state_dir() / "results.sqlite"


def problem(error: OSError, message: str, *, hint: str | None = None) -> MillraceError:
    """Return UnusablePlace if ``error`` is a denied access to millrace's directories.

    Otherwise, return a HostError with ``message`` and ``hint``.
    """
    return _refusal(error) or HostError(message, hint=hint)


def _refusal(error: OSError) -> UnusablePlace | None:
    if error.errno not in _NO_RIGHTS or not isinstance(error.filename, str):
        return None
    refused = Path(error.filename).absolute()
    for variable, place in _DIRECTORIES.items():
        directory = place()
        if refused == directory or directory in refused.parents or refused in directory.parents:
            return UnusablePlace(
                f"{_called(variable, directory)} cannot be used: {refused}: {error.strerror}",
                hint=f"make it writable for your user, or {_other(variable)}",
            )
    return None


def _unshared(variable: str) -> Path:
    place = _DIRECTORIES[variable]()
    refuse_shared(place, variable)
    return place


def _state() -> Path:
    return _place("MILLRACE_STATE", "/var/lib/millrace", "XDG_STATE_HOME", ".local/state")


def _snapshots() -> Path:
    named = _named("MILLRACE_SNAPSHOTS")
    if named is not None:
        return named
    state, work = _state(), work_dir()
    return (state if _device(state) == _device(work) else work) / "snapshots"


def _place(variable: str, root_place: str, xdg_variable: str, home_place: str) -> Path:
    named = _named(variable)
    if named is not None:
        return named
    if os.geteuid() == 0:
        return Path(root_place)
    xdg = os.environ.get(xdg_variable)
    return (Path(xdg) if xdg else Path.home() / home_place) / "millrace"


def _device(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return path.stat().st_dev


def _named(variable: str, *, file: bool = False) -> Path | None:
    """Return the path in an environment variable, None if it is not set.

    Raise UnusablePlace if the path (with ``file``, its parent) is not a directory and cannot become
    one.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise UnusablePlace(f"{variable}={text}: {error}", hint=_other(variable)) from None
    wrong = _complaint(path.parent if file else path)
    if wrong is not None:
        raise UnusablePlace(
            f"{_called(variable, path)} cannot be used: {wrong}", hint=_other(variable)
        )
    return path


def _complaint(path: Path) -> str | None:
    try:
        there = next(each for each in (path, *path.parents) if os.path.lexists(each))
        found = there.stat()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{there} is not a directory"
    if there == path:
        readable = os.access(path, os.R_OK | os.X_OK, effective_ids=True)
        return None if readable else f"no permission to read {path}"
    if os.statvfs(there).f_blocks == 0:
        return f"{there} is on a file system that cannot store files"
    writable = os.access(there, os.W_OK | os.X_OK, effective_ids=True)
    return None if writable else f"no permission to create a directory in {there}"


def _called(variable: str, path: Path) -> str:
    if os.environ.get(variable):
        return f"{variable}={path}"
    return str(path)


def _other(variable: str) -> str:
    noun = "file in a directory" if variable == "MILLRACE_STORE" else "directory"
    return f"set {variable} to a {noun} that you can write to, or unset it"


# The innermost first: work and snapshots lie in state unless variables name them.
_DIRECTORIES: Mapping[str, Callable[[], Path]] = {
    "MILLRACE_WORK": work_dir,
    "MILLRACE_SNAPSHOTS": _snapshots,
    "MILLRACE_CACHE": lambda: _place(
        "MILLRACE_CACHE", "/var/cache/millrace", "XDG_CACHE_HOME", ".cache"
    ),
    "MILLRACE_STATE": _state,
}
