"""Find and run the load generator's program, and interpret its errors."""

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

_REFUSED = 2  # the exit status for a command or an input that the program does not take
_VERSION = ("version",)


def find_load_generator() -> Path:
    """Return MILLRACE_LOAD's program, Python's neighbour, or PATH's. Raise UserError, HostError."""
    named = os.environ.get("MILLRACE_LOAD")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UserError(
                f"MILLRACE_LOAD names {named}, which is not a program",
                hint=f"set it to the path of {NAME}, or unset it",
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
    """Start the program with pipes to it and from it; it ends with millrace. Raise HostError."""
    command = [str(find_load_generator()), "--die-with-parent", *arguments]
    try:
        # A session of its own: Ctrl-C reaches only millrace, which ends the program in order.
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
    """Run the program to its end, at the latest millrace's own; return its JSON object."""
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
    """Return what to do about a program of another version than millrace; None for the same."""
    try:
        theirs = ask(_VERSION).get("load_generator")
    except HostError:
        theirs = None
    if theirs == __version__:
        return None
    other = theirs or "another"
    return f"millrace is of version {__version__}, {NAME} of {other}: run `make setup`"


def last_words(returncode: int, stderr: bytes) -> str:
    """Return the program's own message about its end, or else its signal or exit status."""
    said = stderr.decode(errors="replace").strip().removeprefix(f"{NAME}: ")
    if said:
        return said
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"ended with status {returncode} and without a word"
