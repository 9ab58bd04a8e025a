"""Where text goes: data to stdout, talk to stderr. ``NO_COLOR`` is obeyed (rich does)."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

from millrace.errors import MillraceError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def show_error(error: MillraceError) -> None:
    """The error on stderr, with what to do next."""
    err.print(f"[bold red]error:[/] {_plain(error.message)}")
    if error.remedy:
        err.print(f"[bold]what to do:[/] {_plain(error.remedy)}")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
