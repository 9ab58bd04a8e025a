"""Find valgrind, and write the commands that count a program's instructions with callgrind.

callgrind translates a program and counts each instruction that it executes, without help from the
CPU. While it does not count, the program runs at a fraction of its speed, but at a usable one.

Problem. callgrind takes monitor commands (valgrind's manual, "Monitor command handling") from the
program ``vgdb``, through pipes and memory in files. To reach a program whose threads all wait,
``vgdb`` traces it, which a user may lack the right to do, and which a confined program does not
allow.

Solution. ``vgdb`` traces nothing here. callgrind looks for commands itself after a number of steps
of the program; whoever sends a command makes the program work meanwhile.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import PermanentHostError

MOST_CALLERS = 200
"""The callers by which callgrind distinguishes calls of a function, the innermost first."""

_HINT = "install the package valgrind (Debian, Ubuntu, Fedora)"
_ASK_LIMIT_S = 10.0
_OUTPUT = "callgrind.out"
_PIPES = "vgdb"
_VERSION = re.compile(r"valgrind-(\S+)")
_DUMP = re.compile(rf"{re.escape(_OUTPUT)}\.(\d{{1,6}})-(\d{{1,6}})")


@dataclass(frozen=True)
class Valgrind:
    """A valgrind that runs on this host: its program, that of ``vgdb``, and its version."""

    program: str
    control: str
    version: str

    def callgrind(self, directory: Path) -> tuple[str, ...]:
        """Return the arguments before a program's own that count once ``COUNT`` was sent.

        The program's user must be able to write in ``directory``, which has nothing else.
        """
        return (
            self.program,
            "--tool=callgrind",
            "--instr-atstart=no",
            "--separate-threads=yes",
            f"--separate-callers={MOST_CALLERS}",
            "--cache-sim=no",  # else the host's caches would have a part in it
            "--dump-line=no",
            f"--callgrind-out-file={directory / _OUTPUT}",
            f"--vgdb-prefix={directory / _PIPES}",
        )

    def monitor(self, directory: Path, pid: int, command: str) -> tuple[str, ...]:
        """Return the arguments that send a command to the program that counts in ``directory``."""
        return (
            self.control,
            f"--vgdb-prefix={directory / _PIPES}",
            "--max-invoke-ms=0",
            f"--pid={pid}",
            *command.split(),
        )


COUNT, PAUSE, FORGET, DUMP = "instrumentation on", "instrumentation off", "zero", "dump"
"""Monitor commands: start and pause counting; forget what was counted; write it and forget it."""


def environment(directory: Path) -> Mapping[str, str]:
    """Return what a program that counts in ``directory`` needs in its environment."""
    return {"TMPDIR": str(directory)}


def dump_of(name: str) -> tuple[int, int] | None:
    """Return the numbers, from 1, of the dump and of the thread that a file of this name has."""
    match = _DUMP.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def find() -> Valgrind:
    """Return the valgrind on PATH. Raise PermanentHostError for none, or one that does not run."""
    program, control = shutil.which("valgrind"), shutil.which("vgdb")
    if program is None or control is None:
        raise PermanentHostError(
            "valgrind, which counts instructions, is not installed", hint=_HINT
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
