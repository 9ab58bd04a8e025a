"""Runs a server program once, for what it prints, before anything is known of it.

The program of an archive may be anything. So it runs as a user of its own where millrace is root,
who makes no file anywhere, with nothing of millrace's environment, for a limited time, and may
write no more than a little.
"""

from __future__ import annotations

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
class Printed:
    """How a run ended, and the beginning of what it wrote to standard output and error."""

    status: int
    output: str
    errors: str


def run(
    name: str, argv: Sequence[str], env: Mapping[str, str], arguments: Sequence[str], limit_s: float
) -> Printed:
    """Run the program of the server ``name``; whatever it started has ended afterwards.

    Raises OSError or TimeoutExpired where it does not run, and HostError where the user that it
    is to run as does not reach it.
    """
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
            )
        try:
            status = process.wait(limit_s)
        finally:
            _end(process, uid)
        return Printed(status, _beginning(output), _beginning(errors))


def _beginning(file: IO[bytes]) -> str:
    """Return the first text of a file. It is opened anew: a program can set flags of the open file
    that it shares, such as O_DIRECT, with which reads fail."""
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as opened:  # noqa: PTH123 - no path of a file
        return opened.read(_OUTPUT_LIMIT_BYTES).decode("utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes], uid: int | None) -> None:
    """End the program and what it started: its session's, and all of a user of its own.

    All are killed before anything waits: the kernel shows an ended process to who traces it first,
    and to its parent only when that one has ended too.
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
