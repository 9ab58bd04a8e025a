"""``millrace judge import``: what other benchmarks wrote, as a file of pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from millrace.cli.console import echo, err
from millrace.foreign import hyperfine, pairs, printed
from millrace.foreign.measure import Measure
from millrace.foreign.pairs import Value
from millrace.report.common.output_files import PAIRS, write_text

_FILE = click.Path(path_type=Path)


@click.group("import")
def command() -> None:
    """Make a file for `judge pairs` of what another benchmark wrote."""


def _importing(
    measure: Measure,
) -> Callable[[Callable[[Sequence[Path]], Sequence[Value]]], Callable[..., None]]:
    """Add FILE..., ``--base`` and ``--output`` to a reader of values, and write them as CSV."""

    def adding(read: Callable[[Sequence[Path]], Sequence[Value]]) -> Callable[..., None]:
        @click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
        @click.option(
            "--base",
            metavar="TREATMENT",
            help="The treatment that others are compared with; the first one if not set.",
        )
        @click.option("-o", "--output", type=_FILE, help="Write to FILE instead of stdout.")
        @functools.wraps(read)
        def writing(files: tuple[Path, ...], base: str | None, output: Path | None) -> None:
            values = read(files)
            treatments = list(dict.fromkeys(each.treatment for each in values))
            chosen = pairs.base_of("the import", treatments, base)
            text = pairs.as_csv(values, measure, base=chosen)
            if output is None:
                echo(text)
            else:
                err.print(f"pairs: {write_text(output, text, PAIRS, option='-o')}", markup=False)
            how = "" if base else ", the first one; --base names another"
            err.print(f"base: {chosen}{how}", markup=False)
            err.print(f"values: {measure.better()}", markup=False)

        return writing

    return adding


@command.command("hyperfine")
@_importing(hyperfine.MEASURE)
def hyperfine_command(files: Sequence[Path]) -> Sequence[Value]:
    """Mean times in s from JSON of hyperfine.

    Each FILE is a block: call hyperfine once for each, with all commands, in another order each
    time. The file says that lower is better.
    """
    return hyperfine.read(files)


@command.command("pgbench")
@_importing(printed.MEASURE)
def pgbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Transactions per second from what pgbench printed.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return printed.read("pgbench", files)


@command.command("sysbench")
@_importing(printed.MEASURE)
def sysbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Transactions per second from what sysbench printed.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return printed.read("sysbench", files)
