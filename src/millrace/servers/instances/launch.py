"""Start a server program with the right user, environment and limits."""

import contextlib
import os
import pwd
import resource
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from millrace.errors import HostError
from millrace.model.servers import InstalledServer
from millrace.servers.instances import confinement, processes, users
from millrace.servers.instances.signals import signals_held

# Old servers allocate memory for every descriptor they might have: with the 1,000 million that
# some container runtimes allow, 5.5 to 5.7 take gigabytes or die.
_OPEN_FILES_MAX = 1_048_576

# Limits of a single run (setrlimit): no core dump, files up to 2048 * 512 bytes, CPU seconds
# time.
_LIMITED = 'ulimit -c 0; ulimit -f 2048; ulimit -t 60; exec "$@"'
_OUTPUT_LIMIT_BYTES = 1 << 16
_END_LIMIT_S = 30.0

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

    ``argv`` comes before the server's own arguments, ``env`` is added to its environment, and
    ``arguments`` to its arguments.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    arguments: tuple[str, ...] = ()


BARE_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_OWN_NAME = "millrace"  # the name of users that the host does not list


@dataclass(frozen=True)
class RunsAs:
    """The user that a server runs as."""

    name: str
    uid: int | None = None  # also its group id; None: the user of millrace
    argument: str | None = None  # for the server's own --user, which root needs


def choose_user(server: InstalledServer, directories: Sequence[Path], *, uid: int | None) -> RunsAs:
    """Return the user ``uid``, or millrace's. Raise HostError if it cannot access a path."""
    if uid is None:
        name = _name_of_this_user()
        return RunsAs(name=name, argument=name if os.geteuid() == 0 else None)
    places = [server.share_dir, *map(Path, server.argv), *directories]
    places += map(Path, server.env.get("LD_LIBRARY_PATH", "").split(":"))
    require_reach(server.name, uid, [place for place in places if place.is_absolute()])
    return RunsAs(name=_OWN_NAME, uid=uid)


def require_reach(server: str, uid: int, places: Iterable[Path]) -> None:
    """Raise HostError with the first path that the user ``uid`` cannot access.

    A process of that user tries each path: parents' modes, access lists and mount options all
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
            f"{server}: permission denied for the unprivileged user of the server: {place}",
            hint=f"run: chmod o+{right} {shlex.quote(str(place))}; or use another directory "
            "(MILLRACE_CACHE, MILLRACE_STATE, MILLRACE_WORK), or run millrace as an ordinary user",
        )


@contextlib.contextmanager
def open_files_limit_raised() -> Iterator[None]:
    """Raise the open files limit to its hard limit, for a child started in the block."""
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


@dataclass(frozen=True)
class ProgramOutput:
    """The exit status of a run, and the beginning of its stdout and stderr."""

    status: int
    output: str
    errors: str


def run_once(
    name: str, argv: Sequence[str], env: Mapping[str, str], arguments: Sequence[str], limit_s: float
) -> ProgramOutput:
    """Run an untrusted program, and end everything that it started.

    If millrace is root, the program runs as a user of its own, which can create no files and has no
    network. The program gets none of millrace's environment, and its time and output are limited.
    Raise OSError, TimeoutExpired, HostError.
    """
    with (
        users.reserved() as uid,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        if uid is not None:
            places = [*map(Path, argv), *map(Path, env.get("LD_LIBRARY_PATH", "").split(":"))]
            require_reach(name, uid, [place for place in places if place.is_absolute()])
        with signals_held():
            process = confinement.popen(
                ["/bin/sh", "-c", _LIMITED, "sh", *argv, *arguments],
                uid=uid,
                writable=(),
                env={**BARE_ENVIRONMENT, "HOME": "/nonexistent", **env},
                cwd=Path("/"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                network=False,
            )
        try:
            status = process.wait(limit_s)
        finally:
            _end(process, uid)
        return ProgramOutput(status, _beginning(output), _beginning(errors))


def _beginning(file: IO[bytes]) -> str:
    # The program can set flags of the shared file, such as O_DIRECT, which make reads fail.
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as opened:  # noqa: PTH123 - no path of a file
        return opened.read(_OUTPUT_LIMIT_BYTES).decode("utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes], uid: int | None) -> None:
    """End the program and what it started: its session, and all processes of its own user.

    Kill all of them before waiting. The kernel reports the end of a traced process first to its
    tracer, and to its parent only after the tracer has ended.
    """
    with signals_held():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if uid is None:
            process.wait()
            return
        users.kill_all(uid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)
        processes.end_all_of(uid)
