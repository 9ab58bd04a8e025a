"""Where text goes: data to stdout, talk to stderr. ``NO_COLOR`` is obeyed (rich does)."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from millrace.errors import MillraceError

# A pipe or a file has no width: prose gets a readable one, tables what they need (print_table).
_PROSE_WIDTH = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
_UNLIMITED = 10_000


class _Out(Console):
    """Data; when its reader has gone (`millrace ... | head`), there is nothing left to do."""

    def on_broken_pipe(self) -> None:
        discard(sys.stdout)
        raise SystemExit(0)


class _Talk(Console):
    """Talk; when its reader has gone, the work goes on in silence."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let what is still written to a stream go nowhere, so that no flush fails at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


out = _Out(highlight=False, soft_wrap=True, width=_PROSE_WIDTH)
err = _Talk(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def plain_table(*headings: str) -> Table:
    """A table without lines; the first column, the name of a thing, is never broken."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=position == 0)
    return table


def print_table(table: Table) -> None:
    """As wide as the terminal; elsewhere as wide as its text, so that programs get a row a line."""
    console = out if out.is_terminal else Console(highlight=False, width=_UNLIMITED)
    console.print(table, soft_wrap=False)


def show_error(error: MillraceError) -> None:
    """The error on stderr, with what to do next."""
    err.print(f"[bold red]error:[/] {_plain(error.message)}")
    if error.remedy:
        err.print(f"[bold]what to do:[/] {_plain(error.remedy)}")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
