"""Start a server program with the right user, environment and limits."""

import contextlib
import os
import pwd
import resource
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from millrace.errors import HostError
from millrace.model.servers import InstalledServer
from millrace.servers.instances import confinement
from millrace.servers.instances.processes import ENVIRONMENT_VARIABLE

# Old servers allocate memory for every descriptor they might have: with the 1,000 million that
# some container runtimes allow, 5.5 to 5.7 take gigabytes or die.
_OPEN_FILES_MAX = 1_048_576

# Prints the first path that its user cannot access.
_REACH_TEST = """
for place; do
    if test -d "$place"; then test -x "$place"; else test -r "$place"; fi && continue
    printf %s "$place"
    exit 1
done
"""


@dataclass(frozen=True)
class Tool:
    """A program that runs the server's program, such as valgrind.

    ``argv`` comes before the server's own, ``env`` is added to its environment, and ``arguments``
    to its arguments.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    arguments: tuple[str, ...] = ()


BARE_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_OWN_NAME = "millrace"  # of the users that are in no list of users


@dataclass(frozen=True)
class RunsAs:
    """The user that a server runs as."""

    name: str
    uid: int | None = None  # and the number of its group; None for the user of millrace
    argument: str | None = None  # for the server's own --user, which root needs


def choose_user(server: InstalledServer, directories: Sequence[Path], *, uid: int | None) -> RunsAs:
    """Return the user ``uid``, or millrace's. Raise HostError where it cannot access a path."""
    if uid is None:
        name = _name_of_this_user()
        return RunsAs(name=name, argument=name if os.geteuid() == 0 else None)
    places = [server.share_dir, *map(Path, server.argv), *directories]
    places += map(Path, server.env.get("LD_LIBRARY_PATH", "").split(":"))
    require_reach(server.name, uid, [place for place in places if place.is_absolute()])
    return RunsAs(name=_OWN_NAME, uid=uid)


def require_reach(server: str, uid: int, places: Iterable[Path]) -> None:
    """Raise HostError, naming the first path that the user ``uid`` cannot access.

    A process of that user tries it, because modes of parents, access lists and mount options all
    matter.
    """
    needed = dict.fromkeys(
        each for place in places if place.exists() for each in (*reversed(place.parents), place)
    )
    finished = subprocess.run(
        ["/bin/sh", "-c", _REACH_TEST, "sh", *map(str, needed)],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        env=BARE_ENVIRONMENT,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if finished.returncode != 0:
        place = Path(os.fsdecode(finished.stdout))
        right = "x" if place.is_dir() else "r"
        raise HostError(
            f"{server}: {place} is closed to the unprivileged user that a server runs as",
            hint=f"open it with: chmod o+{right} {shlex.quote(str(place))}; or use another place "
            "(MILLRACE_CACHE, MILLRACE_STATE, MILLRACE_WORK), or run millrace as an ordinary user",
        )


def spawn(
    server: InstalledServer,
    arguments: Sequence[str],
    *,
    instance_id: str,
    directory: Path,
    writable: Sequence[Path],
    runs_as: RunsAs,
    log: IO[bytes],
    output: IO[bytes] | None = None,
    stdin: int = subprocess.DEVNULL,
    tool: Tool | None = None,
    network: bool = True,
) -> subprocess.Popen[bytes]:
    """Start the server program in its own session, which Ctrl-C of the terminal does not reach.

    A server with a user of its own can write only in the directories ``writable``, and so can a
    ``tool`` that runs it. Its output goes to ``log``, or its standard output to ``output``. Its
    environment has nothing of millrace's: nothing that could change the measurement, and no secret.
    """
    environment = {
        **BARE_ENVIRONMENT,
        "HOME": str(directory),
        **server.env,
        **({} if tool is None else tool.env),
        ENVIRONMENT_VARIABLE: instance_id,
    }
    with _open_files_limit_raised():
        return confinement.popen(
            [*(() if tool is None else tool.argv), *server.argv, *arguments],
            uid=runs_as.uid,
            writable=writable,
            env=environment,
            cwd=directory,
            stdin=stdin,
            stdout=output or log,
            stderr=log,
            network=network,
        )


@contextlib.contextmanager
def _open_files_limit_raised() -> Iterator[None]:
    """Let a child started inside the block open as many files as this process may allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _name_of_this_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
