"""The command that measures again what a run measured."""

from __future__ import annotations

import re
import shlex

_CONTINUES = re.compile(r"millrace (?:run|calibrate|bisect)(?=\s|$)")


def repeating(command: str) -> str:
    """Return the command of a run as one that begins a new run; else it would continue it."""
    if "--new" in _words(command):
        return command
    return _CONTINUES.sub(lambda match: f"{match[0]} --new", command, count=1)


def _words(command: str) -> list[str]:
    """Return the words of a command as a shell has them; an imported one may be no command."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
