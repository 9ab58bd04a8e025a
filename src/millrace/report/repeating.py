"""The command that measures again what a run measured."""

from __future__ import annotations

import re

_CONTINUES = re.compile(r"millrace (?:run|calibrate|bisect)(?=\s|$)")


def repeating(command: str) -> str:
    """Return the command of a run as one that begins a new run; else it would continue it."""
    if "--new" in command.split():
        return command
    return _CONTINUES.sub(lambda match: f"{match[0]} --new", command, count=1)
