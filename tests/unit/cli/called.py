"""Commands called in this process, for their exit status."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from millrace.cli.main import cli
from millrace.errors import MillraceError


def call(*arguments: str | Path) -> int:
    """Call the command and return its exit status; an error that is none of ours fails the test."""
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    if isinstance(done.exception, MillraceError):
        return done.exception.exit_status
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code
