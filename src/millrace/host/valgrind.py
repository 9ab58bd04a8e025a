"""Find valgrind, and build the command lines that count a program's instructions with callgrind.

callgrind translates a program's code and counts each executed instruction; it needs no hardware
counters. While counting is off, the program is slow but usable.

Problem. The program ``vgdb`` sends monitor commands to callgrind (valgrind's manual, "Monitor
command handling") through pipes and shared memory. If all threads of the program wait, ``vgdb``
uses ptrace to interrupt them, but the user may lack the privilege, or the program is sandboxed.

Solution. ``vgdb`` does not use ptrace here. callgrind polls for commands after a number of executed
blocks; the sender of a command must keep the program busy meanwhile.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import PermanentHostError

MOST_CALLERS = 200
"""The number of innermost callers by which callgrind distinguishes calls of a function."""

_HINT = "install the package valgrind (Debian, Ubuntu, Fedora)"
_ASK_LIMIT_S = 10.0
_OUTPUT = "callgrind.out"
_PIPES = "vgdb"
_VERSION = re.compile(r"valgrind-(\S+)")
_DUMP = re.compile(rf"{re.escape(_OUTPUT)}\.(\d{{1,6}})-(\d{{1,6}})")


@dataclass(frozen=True)
class Valgrind:
    """A valgrind that runs on this host: the paths of valgrind and ``vgdb``, and the version."""

    program: str
    control: str
    version: str

    def callgrind(self, directory: Path) -> tuple[str, ...]:
        """Return the command prefix that runs a program under callgrind, with counting off.

        ``directory`` must be empty and writable for the program's user.
        """
        return (
            self.program,
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
            f"--separate-callers={MOST_CALLERS}",
            "--cache-sim=no",  # the cache simulation would depend on the host's caches
            "--dump-line=no",
            f"--callgrind-out-file={directory / _OUTPUT}",
            f"--vgdb-prefix={directory / _PIPES}",
        )

    def monitor(self, directory: Path, pid: int, command: str) -> tuple[str, ...]:
        """Return the command line that sends a monitor command to the program in ``directory``."""
        return (
            self.control,
            f"--vgdb-prefix={directory / _PIPES}",
            "--max-invoke-ms=0",
            f"--pid={pid}",
            *command.split(),
        )


COUNT, PAUSE, FORGET, DUMP = "instrumentation on", "instrumentation off", "zero", "dump"
"""Monitor commands: start and stop counting; reset the counts; write and reset the counts."""


def environment(directory: Path) -> Mapping[str, str]:
    """Return the environment variables for a program that counts in ``directory``."""
    return {"TMPDIR": str(directory)}


def dump_of(name: str) -> tuple[int, int] | None:
    """Return the dump and thread numbers (from 1) in a dump file's name; None for other files."""
    match = _DUMP.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def find() -> Valgrind:
    """Return the valgrind on PATH. Raise PermanentHostError if there is none or it does not run."""
    program, control = shutil.which("valgrind"), shutil.which("vgdb")
    if program is None or control is None:
        raise PermanentHostError(
            "valgrind is not installed, but counting instructions needs it", hint=_HINT
        )
    try:
        ran = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PermanentHostError(f"{program} does not run: {error}", hint=_HINT) from error
    version = _VERSION.search(ran.stdout.decode(errors="replace"))
    if ran.returncode != 0 or version is None:
        raise PermanentHostError(f"{program} does not run here", hint=_HINT)
    return Valgrind(program, control, version[1])
