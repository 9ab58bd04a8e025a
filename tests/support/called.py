"""Call commands in this process: a process of their own would take a second to start."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace.cli.main import main


@dataclass(frozen=True)
class Done:
    """The result of a command: its exit status and its output."""

    returncode: int
    stdout: str
    stderr: str


def millrace(*arguments: str | Path, answer: str = "", status: int | None = None) -> Done:
    """Run the command line as a user does, but in this process.

    ``answer`` is its stdin; ``status`` is the exit status that it has to have, None for any.
    """
    out, err = io.StringIO(), io.StringIO()
    umask = os.umask(0o022)
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("NO_COLOR", "1")
            patch.setattr("sys.stdin", io.StringIO(answer))
            patch.setattr("sys.argv", ["millrace", *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
    finally:
        os.umask(umask)
    done = Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())
    assert "Traceback" not in done.stderr, done.stderr
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def call(*arguments: str | Path) -> int:
    """Run the command line and return its exit status; an unexpected exception fails the test."""
    return millrace(*arguments).returncode
