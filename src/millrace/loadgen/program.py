"""Find and run the load generator, and interpret its errors."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from millrace import __version__
from millrace.errors import HostError, UserError

NAME = "millrace-load"

_REFUSED = 2  # the exit status for an invalid command or input
_VERSION = ("version",)


def find_load_generator() -> Path:
    """Return the path of the load generator.

    It is MILLRACE_LOAD, else the program next to Python, else the one on PATH. Raise UserError if
    MILLRACE_LOAD is not a program, HostError if none is found.
    """
    named = os.environ.get("MILLRACE_LOAD")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UserError(
                f"MILLRACE_LOAD={named}: not an executable file",
                hint=f"set MILLRACE_LOAD to the path of {NAME}, or unset it",
            )
        return Path(named)
    neighbour = Path(sys.executable).with_name(NAME)
    if os.access(neighbour, os.X_OK):
        return neighbour
    on_path = shutil.which(NAME)
    if on_path is None:
        raise HostError(
            f"the load generator {NAME} is neither next to {sys.executable} nor on PATH",
            hint=f"run `make setup`, or set MILLRACE_LOAD to the path of {NAME}",
        )
    return Path(on_path)


def start(arguments: Sequence[str], stderr: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start the load generator with pipes; it is killed when millrace ends. Raise HostError."""
    command = [str(find_load_generator()), "--die-with-parent", *arguments]
    try:
        # In a new session, so that Ctrl-C reaches only millrace, which then ends the program.
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"cannot start {command[0]}: {error.strerror}") from error


def ask(arguments: Sequence[str], standard_input: str = "") -> dict[str, Any]:
    """Run the load generator to its end; return the JSON object it prints. Raise HostError."""
    with start(arguments, subprocess.PIPE) as process:
        try:
            written, said = process.communicate(standard_input.encode())
        except BaseException:
            process.kill()
            raise
    status = process.returncode
    if status != 0:
        raise HostError(
            f"{NAME} {arguments[0]}: {last_words(status, said)}",
            hint=version_hint() if status == _REFUSED and arguments != _VERSION else None,
        )
    answer: dict[str, Any] = json.loads(written or b"{}")
    return answer


def version_hint() -> str | None:
    """Return a hint if the load generator and millrace have different versions; else None."""
    try:
        theirs = ask(_VERSION).get("load_generator")
    except HostError:
        theirs = None
    if theirs == __version__:
        return None
    other = theirs or "another version"
    return f"millrace has version {__version__}, but {NAME} has {other}: run `make setup`"


def last_words(returncode: int, stderr: bytes) -> str:
    """Return why the load generator ended: its error message, else its signal or exit status."""
    said = stderr.decode(errors="replace").strip().removeprefix(f"{NAME}: ")
    if said:
        return said
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exited with status {returncode} without an error message"
