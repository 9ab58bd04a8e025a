"""Where millrace keeps things on this machine.

========== ====================== ============================= ==============================
place      environment variable   as root                       as an ordinary user
========== ====================== ============================= ==============================
cache      ``MILLRACE_CACHE``     ``/var/cache/millrace``       ``$XDG_CACHE_HOME/millrace``
state      ``MILLRACE_STATE``     ``/var/lib/millrace``         ``$XDG_STATE_HOME/millrace``
work       ``MILLRACE_WORK``      ``<state>/work``              ``<state>/work``
templates  ``MILLRACE_TEMPLATES`` ``<state>/templates``         ``<state>/templates``
========== ====================== ============================= ==============================

cache: downloads and unpacked servers, shared by all experiments. state: the results store and the
servers a user added. work: data directories of running instances; put it on the disk under test.
templates: loaded data directories that are kept for the next trial; ``<work>/templates`` where work
and state are on different file systems, so that a copy can share blocks with its template.
Root's places are not under root's home, because servers run as an unprivileged user who must be
able to reach them.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The directory of downloads and unpacked servers; it may not exist yet."""
    return _place("MILLRACE_CACHE", "/var/cache/millrace", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """The directory of the results store and of the servers a user added; it may not exist yet."""
    return _place("MILLRACE_STATE", "/var/lib/millrace", "XDG_STATE_HOME", ".local/state")


def work_dir() -> Path:
    """The directory of instances' data; it may not exist yet."""
    named = os.environ.get("MILLRACE_WORK")
    return Path(named).expanduser().absolute() if named else state_dir() / "work"


def templates_dir() -> Path:
    """The directory of templates; it may not exist yet."""
    named = os.environ.get("MILLRACE_TEMPLATES")
    if named:
        return Path(named).expanduser().absolute()
    state, work = state_dir(), work_dir()
    return (state if _device(state) == _device(work) else work) / "templates"


def default_store() -> Path:
    """The results store that is used when the user names none (``MILLRACE_STORE`` or state)."""
    named = os.environ.get("MILLRACE_STORE")
    return Path(named).expanduser().absolute() if named else state_dir() / "results.sqlite"


def _place(variable: str, root_place: str, xdg_variable: str, home_place: str) -> Path:
    named = os.environ.get(variable)
    if named:
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return Path(root_place)
    xdg = os.environ.get(xdg_variable)
    return (Path(xdg) if xdg else Path.home() / home_place) / "millrace"


def _device(path: Path) -> int:
    """The file system that a path, which may not exist yet, is or would be on."""
    while not path.exists():
        path = path.parent
    return path.stat().st_dev
