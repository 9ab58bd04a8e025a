"""Run an unknown server program once, and return its output.

The program of an archive may be anything. Where millrace is root, the program therefore runs as a
user of its own, which can create files nowhere and has no network. It has none of millrace's
environment, a limited time, and a limit on its output.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from millrace.servers.instances import confinement, launch, processes, users
from millrace.servers.instances.signals import signals_held

# Limits of a process (setrlimit): no core, files of 2048 * 512 bytes at most, seconds of CPU time.
_LIMITED = 'ulimit -c 0; ulimit -f 2048; ulimit -t 60; exec "$@"'
_OUTPUT_LIMIT_BYTES = 1 << 16
_END_LIMIT_S = 30.0


@dataclass(frozen=True)
class ProgramOutput:
    """The exit status of a run, and the beginning of its standard output and error."""

    status: int
    output: str
    errors: str


def run(
    name: str, argv: Sequence[str], env: Mapping[str, str], arguments: Sequence[str], limit_s: float
) -> ProgramOutput:
    """Run a program and end all that it started. Raise OSError, TimeoutExpired, HostError."""
    with (
        users.reserved() as uid,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        if uid is not None:
            places = [*map(Path, argv), *map(Path, env.get("LD_LIBRARY_PATH", "").split(":"))]
            launch.require_reach(name, uid, [place for place in places if place.is_absolute()])
        with signals_held():
            process = confinement.popen(
                ["/bin/sh", "-c", _LIMITED, "sh", *argv, *arguments],
                uid=uid,
                writable=(),
                env={**launch.BARE_ENVIRONMENT, "HOME": "/nonexistent", **env},
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
    """Return the beginning of a file's text."""
    # A program can set flags of the file it shares, such as O_DIRECT, with which reads fail.
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as opened:  # noqa: PTH123 - no path of a file
        return opened.read(_OUTPUT_LIMIT_BYTES).decode("utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes], uid: int | None) -> None:
    """End the program and what it started: its session, and all processes of its own user.

    Kill all before waiting: the kernel reports the end of a traced process to its tracer first, and
    to its parent only when the tracer has ended too.
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
