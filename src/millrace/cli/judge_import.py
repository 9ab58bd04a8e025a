"""``millrace judge import``: what other benchmarks wrote, as a file of pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from millrace.cli.console import err
from millrace.foreign import hyperfine, pairs, printed
from millrace.foreign.pairs import Value
from millrace.report.kinds import PAIRS
from millrace.report.write import write_text

_FILE = click.Path(path_type=Path)


@click.group("import")
def command() -> None:
    """Make a file for `judge pairs` of what another benchmark wrote."""


def _importing(read: Callable[[Sequence[Path]], Sequence[Value]]) -> Callable[..., None]:
    """Add FILE... and ``--output``; what is read is written as CSV."""

    @click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
    @click.option("-o", "--output", type=_FILE, help="Write to FILE instead of stdout.")
    @functools.wraps(read)
    def writing(files: tuple[Path, ...], output: Path | None) -> None:
        text = pairs.as_csv(read(files))
        if output is None:
            click.echo(text, nl=False)
        else:
            err.print(f"pairs: {write_text(output, text, PAIRS, option='-o')}", markup=False)

    return writing


@command.command("hyperfine")
@_importing
def hyperfine_command(files: Sequence[Path]) -> Sequence[Value]:
    """Mean times in s from JSON of hyperfine.

    Each FILE is a block: call hyperfine once for each, with all commands, in another order each
    time. Times are better when lower: judge them with `--direction lower`.
    """
    return hyperfine.read(files)


@command.command("pgbench")
@_importing
def pgbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Transactions per second from what pgbench printed.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return printed.read("pgbench", files)


@command.command("sysbench")
@_importing
def sysbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Transactions per second from what sysbench printed.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return printed.read("sysbench", files)
