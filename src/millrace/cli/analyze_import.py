"""``millrace analyze import``: what other benchmarks wrote, as a file of pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from millrace.cli.console import echo, err
from millrace.importers import hyperfine, paired, text_output
from millrace.importers.paired import Value
from millrace.importers.units import Measure
from millrace.report.common.output_files import PAIRS, write_text

_FILE = click.Path(path_type=Path)


@click.group("import")
def command() -> None:
    """Convert the output of another benchmark for `analyze paired`."""


def _importing(
    measure: Measure,
) -> Callable[[Callable[[Sequence[Path]], Sequence[Value]]], Callable[..., None]]:
    """Add FILE..., ``--base`` and ``--output`` to a reader of values, and write them as CSV."""

    def adding(read: Callable[[Sequence[Path]], Sequence[Value]]) -> Callable[..., None]:
        @click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
        @click.option(
            "--base",
            metavar="TREATMENT",
            help="The base of the comparisons (default: the first treatment).",
        )
        @click.option("-o", "--output", type=_FILE, help="Write to FILE instead of stdout.")
        @functools.wraps(read)
        def writing(files: tuple[Path, ...], base: str | None, output: Path | None) -> None:
            values = read(files)
            treatments = list(dict.fromkeys(each.treatment for each in values))
            chosen = paired.base_of("the import", treatments, base)
            text = paired.as_csv(values, measure, base=chosen)
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
    """Convert mean times in s from the JSON of hyperfine.

    Each FILE is a block: call hyperfine once for each, with all commands, in another order each
    time. The file says that lower is better.
    """
    return hyperfine.read(files)


@command.command("pgbench")
@_importing(text_output.MEASURE)
def pgbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Convert transactions per second from the output of pgbench.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return text_output.read("pgbench", files)


@command.command("sysbench")
@_importing(text_output.MEASURE)
def sysbench_command(files: Sequence[Path]) -> Sequence[Value]:
    """Convert transactions per second from the output of sysbench.

    Each FILE is a trial and is called TREATMENT-BLOCK, such as old-1.log and new-1.log.
    """
    return text_output.read("sysbench", files)
