"""How a server program is run: as which user, in which environment, with which limits."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from millrace.servers.model import InstalledServer
from millrace.servers.processes import ENVIRONMENT_VARIABLE

# Old servers allocate memory for every descriptor they might have: with the thousand million that
# some container runtimes allow, 5.5 to 5.7 take gigabytes or die.
_OPEN_FILES_MAX = 1_048_576

_REACH_TEST = """
for place; do
    test -r "$place" || exit 1
    test -d "$place" && test ! -x "$place" && exit 1
done
exit 0
"""

_UNPRIVILEGED_USERS = ("mysql", "nobody")


@dataclass(frozen=True)
class RunsAs:
    """The user a server runs under: by ``uid`` and ``gid`` where millrace is root and it is not;
    ``argument`` is for the server's own ``--user``, which root needs."""

    name: str
    uid: int | None = None
    gid: int | None = None
    argument: str | None = None


def choose_user(server: InstalledServer, directories: Sequence[Path]) -> RunsAs:
    """Who the server should run as: ourselves, or, where we are root, an unprivileged user that
    reaches the program and its files and all ``directories``; root itself if there is none."""
    if os.geteuid() != 0:
        return RunsAs(name=_own_name())
    places = [server.program, server.share_dir, *map(Path, server.argv), *directories]
    places += map(Path, server.env.get("LD_LIBRARY_PATH", "").split(":"))
    needed = [place for place in places if place.is_absolute() and place.exists()]
    for name in _UNPRIVILEGED_USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0 and _can_reach(entry, needed):
                return RunsAs(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    return RunsAs(name="root", argument="root")


def give(path: Path, runs_as: RunsAs) -> None:
    """Make the server's user the owner of a file or directory."""
    if runs_as.uid is not None and runs_as.gid is not None:
        os.chown(path, runs_as.uid, runs_as.gid)


def spawn(
    server: InstalledServer,
    arguments: Sequence[str],
    *,
    instance_id: str,
    directory: Path,
    runs_as: RunsAs,
    log: IO[bytes],
    output: IO[bytes] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start the server program in its own session (Ctrl-C of the terminal is not meant for it).

    What it writes goes to ``log``, or its standard output to ``output``. Its environment holds
    nothing of ours that could change what is measured.
    """
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": str(directory),
        **server.env,
        ENVIRONMENT_VARIABLE: instance_id,
    }
    with _open_files_limit_raised():
        return subprocess.Popen(
            [*server.argv, *arguments],
            stdin=stdin,
            stdout=output or log,
            stderr=log,
            env=environment,
            cwd=directory,
            start_new_session=True,
            user=runs_as.uid,
            group=runs_as.gid,
            extra_groups=None if runs_as.uid is None else [],
        )


@contextlib.contextmanager
def _open_files_limit_raised() -> Iterator[None]:
    """A child started inside may open as many files as this process is allowed to allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _can_reach(user: pwd.struct_passwd, places: Sequence[Path]) -> bool:
    """Ask as that user: modes of parents, access lists and mount options all have a say."""
    finished = subprocess.run(
        ["/bin/sh", "-c", _REACH_TEST, "sh", *map(str, places)],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return finished.returncode == 0


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
