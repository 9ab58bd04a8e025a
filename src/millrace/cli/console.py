"""Print data on stdout and messages on stderr; rich obeys ``NO_COLOR``."""

import errno
import io
import json
import os
import select
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from millrace.errors import MillraceError
from millrace.shown_text import shown, shown_json, shown_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_UNLIMITED = 10_000
_LARGEST_SIZE = 10_000  # in characters, of a terminal
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ESCAPED = "backslashreplace"  # characters that an encoding lacks
_GONE = (errno.EPIPE, errno.EBADF)  # the stream has no reader any more


class _Stream(io.RawIOBase):
    """A standard stream that discards its output once its reader is gone.

    The exit status of a command is then the same whether or not its output is read to the end.
    ``talks`` marks stderr, on which no write error ends the command.
    """

    def __init__(self, descriptor: int, *, talks: bool) -> None:
        self._descriptor = descriptor
        self._talks = talks

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return _written(self._descriptor, data)
        except OSError as error:
            if not self._talks and error.errno not in _GONE:
                raise
        discard(self)
        return memoryview(data).nbytes


def _written(descriptor: int, data: "ReadableBuffer") -> int:
    """Write some of the data; wait for the reader of a pipe that is full and non-blocking."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            ready = select.poll()
            ready.register(descriptor, select.POLLOUT)
            ready.poll()


def guard_streams() -> None:
    """Make a command independent of the readers of stdout and stderr.

    A stream that was closed before the command started is redirected to /dev/null. Otherwise, the
    next opened file would get its descriptor.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _guarded(sys.stdout, _STDOUT)
    sys.stderr = _guarded(sys.stderr, _STDERR)


def _guarded(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is not None and not _has_descriptor(stream, descriptor):
        return stream  # a caller in this process replaced it
    raw = _Stream(descriptor, talks=descriptor == _STDERR)
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=_ESCAPED)
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=_ESCAPED,
        line_buffering=stream.isatty() or descriptor == _STDERR,
    )  # fmt: skip


def _has_descriptor(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):
        return False


def _forget_impossible_sizes() -> None:
    """Remove terminal sizes from the environment that are not sizes of any terminal."""
    for name in ("COLUMNS", "LINES"):
        text = os.environ.get(name, "1")
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST_SIZE))
        if not is_number or not 1 <= int(text) <= _LARGEST_SIZE:
            del os.environ[name]


def _prose_width() -> int | None:
    """Return the width of prose: None on a terminal (its own width) or with ``COLUMNS``, else 120.

    Tables in a pipe or a file are as wide as they need to be (``print_table``).
    """
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return None if is_terminal or "COLUMNS" in os.environ else 120


class _Shown(Console):
    """A console that interprets no markup and makes hidden characters of its output visible."""

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


def discard(stream: TextIO | io.RawIOBase) -> None:
    """Redirect a stream to /dev/null, so that its last flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


_forget_impossible_sizes()
out = _Shown(soft_wrap=True, width=_prose_width())
err = _Shown(soft_wrap=True, stderr=True)


def echo(document: str) -> None:
    """Print a document on stdout, unchanged except that hidden characters become visible."""
    click.echo(shown(document), nl=False)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    echo(shown_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


class LineTable(Table):
    """A table with one line per row: line ends in cells are shown as escapes."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        lines = (shown_line(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*lines, **options)


def plain_table(*headings: str) -> LineTable:
    """Return a table without rules, whose first column is never wrapped."""
    table = LineTable(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=position == 0)
    return table


def print_table(table: Table) -> None:
    """Print a table at the width of the terminal; elsewhere, print each row on one line."""
    console = out if out.is_terminal else _Shown(width=_UNLIMITED)
    console.print(table, soft_wrap=False)


def show_error(error: MillraceError) -> None:
    """Print an error and its hint on stderr."""
    err.print(Text.assemble(("error:", "bold red"), " ", error.message))
    if error.hint:
        err.print(Text.assemble(("hint:", "bold"), " ", error.hint))
