"""Print data on stdout and talk on stderr; rich obeys ``NO_COLOR``."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from millrace.errors import MillraceError
from millrace.shown_text import shown, shown_json, shown_line

# A pipe or a file has no width: prose gets a readable one, tables what they need (print_table).
_PROSE_WIDTH = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120
_UNLIMITED = 10_000


class _Shown(Console):
    """A console that reads no markup, and shows hidden characters in all text that it lays out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(shown(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, Text) and shown(renderable.plain) != renderable.plain:
            renderable = Text.assemble(
                *((shown(part.text), part.style or "") for part in renderable.render(self)),
                justify=renderable.justify,
                overflow=renderable.overflow,
                no_wrap=renderable.no_wrap,
                end=renderable.end,
            )
        return super().render(renderable, options)


class _Out(_Shown):
    """Data; when its reader has gone (`millrace ... | head`), there is nothing left to do."""

    def on_broken_pipe(self) -> None:
        discard(sys.stdout)
        raise SystemExit(0)


class _Talk(_Shown):
    """Talk; when its reader has gone, the work goes on in silence."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let what is still written to a stream go nowhere, so that no flush fails at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


out = _Out(soft_wrap=True, width=_PROSE_WIDTH)
err = _Talk(soft_wrap=True, stderr=True)


def echo(document: str) -> None:
    """Print a document on stdout as it is, but for hidden characters."""
    click.echo(shown(document), nl=False)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    echo(shown_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


class LineTable(Table):
    """A table with a line for each row: it shows line ends in the text of a cell as such."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        lines = (shown_line(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*lines, **options)


def plain_table(*headings: str) -> LineTable:
    """Return a table without rules; the first column, the name of a thing, is never broken."""
    table = LineTable(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=position == 0)
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal, elsewhere a row a line, for programs."""
    console = out if out.is_terminal else _Out(width=_UNLIMITED)
    console.print(table, soft_wrap=False)


def show_error(error: MillraceError) -> None:
    """Print an error on stderr, with what to do next."""
    err.print(Text.assemble(("error:", "bold red"), " ", error.message))
    if error.hint:
        err.print(Text.assemble(("what to do:", "bold"), " ", error.hint))
