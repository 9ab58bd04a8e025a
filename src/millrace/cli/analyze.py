"""Provide ``millrace analyze``: verdicts on values that another tool measured."""

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from millrace.analysis import ci_gate
from millrace.analysis.ci_gate import Gated
from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.compare.verdict import margin_text
from millrace.app.compare import ComparedSeries, Criteria, compare_paired, compare_series
from millrace.cli.console import echo, err, out, print_json
from millrace.cli.fail_on import check, fail_on_option
from millrace.cli.options import Finite, OrderedGroup, Percent, margin_option, sensitivity_option
from millrace.errors import UserError
from millrace.importers import (
    hammerdb,
    hyperfine,
    mysqlslap,
    paired,
    pgbench,
    sysbench,
    text_output,
)
from millrace.importers.paired import Imported
from millrace.importers.units import Better, counts_instructions
from millrace.model.measurements import Direction
from millrace.output_files import PAIRS, write_text
from millrace.quantities import counted
from millrace.report.common.terminal_table import STYLES, show_table
from millrace.report.counts import NOT_SPEED
from millrace.report.external import paired as paired_report
from millrace.report.external import series as series_report
from millrace.stats.change_points import Sensitivity

_FILE = click.Path(path_type=Path)

_base_option = click.option(
    "--base",
    metavar="TREATMENT",
    help="The base of the comparisons (default: the first treatment).",
)


@click.group("analyze", cls=OrderedGroup)
def command() -> None:
    """Analyze numbers of any benchmark.

    Applies the statistics of `millrace run` to values that another tool measured.
    """


def _with_criteria(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE, ``--json``, ``--fail-on``, and the options that make up ``criteria``."""

    @click.argument("file", type=_FILE)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @margin_option(
        "The smallest difference that matters (default: 2; for instruction counts 0.2).",
        Percent(0, 100, min_open=True, max_open=True),
    )
    @click.option(
        "--alpha",
        type=Finite(1e-6, 0.5),
        default=0.05,
        show_default=True,
        metavar="P",
        help="The share of intervals that may exclude a ratio of 1 by chance (error rate).",
    )
    @click.option(
        "--direction",
        type=click.Choice(["higher", "lower"]),
        help="Whether higher or lower values are better (default: from the file's column "
        "direction or unit).",
    )
    @fail_on_option
    @functools.wraps(command)
    def with_criteria(
        *, margin: float | None, alpha: float, direction: Direction | None, **others: Any
    ) -> Any:
        fraction = None if margin is None else margin / 100
        return command(criteria=Criteria(fraction, alpha, direction), **others)

    return with_criteria


def _refuse_assumed(better: Iterable[Better], fail_on: tuple[Gated, ...]) -> None:
    """Raise UserError if ``fail_on`` is set and the better direction of some values is a guess."""
    assumed = [each for each in better if each.basis == "assumed"]
    if not fail_on or not assumed:
        return
    units = sorted({each.unit for each in assumed if each.unit})
    of = f" (unit {', '.join(map(repr, units))})" if units else ""
    raise UserError(
        f"--fail-on needs the better direction of the values, and the file does not state it{of}",
        hint="add --direction higher or --direction lower, or a column direction to the file",
    )


def _print_heading(analyzed: str, better: str, margin: str) -> None:
    out.print(f"{analyzed}; {better}, margin {margin}")
    out.print()


@command.command("paired", short_help="Compare treatments that were interleaved in blocks.")
@_with_criteria
@_base_option
def paired_command(
    *, file: Path, as_json: bool, criteria: Criteria, base: str | None, fail_on: tuple[Gated, ...]
) -> None:
    """Compare treatments that were interleaved in blocks.

    FILE (`-` is standard input) is CSV with the columns block, treatment and value. Each row is a
    trial; each block has one value per treatment. Optional columns: unit, direction, operations,
    errors, retries, skipped. Ratios are candidate / base. The intervals stay valid however often
    you look, so you may add blocks until there is a verdict.
    """
    found, chosen, better, margin = compare_paired(file, criteria, base=base)
    _refuse_assumed([better], fail_on)
    if as_json:
        document = paired_report.as_json(
            found,
            direction=better.direction,
            direction_from=better.basis,
            unit=better.unit,
            margin=margin,
            alpha=criteria.alpha,
        )
        print_json(document)
    else:
        _print_heading(f"base {chosen}", str(better), margin_text(margin))
        _show_comparisons(found, margin, better.unit, criteria.alpha)
    check(ci_gate.of_pairs(found, criteria.alpha), fail_on)


def _show_comparisons(
    found: Sequence[PairedComparison], margin: float, unit: str, alpha: float
) -> None:
    show_table(paired_report.table(found, alpha), out)
    out.print()
    for each in found:
        text = Text(paired_report.sentence(each, margin, unit))
        text.highlight_words([each.verdict], STYLES[each.verdict])
        out.print(text)
    if family := paired_report.family_sentence(found, alpha):
        out.print(family)
    if counts_instructions(unit):
        out.print(f"{NOT_SPEED}.")


@command.command("series", short_help="Find where the level of a series changed.")
@_with_criteria
@sensitivity_option("points")
def series_command(
    *,
    file: Path,
    as_json: bool,
    criteria: Criteria,
    sensitivity: Sensitivity,
    fail_on: tuple[Gated, ...],
) -> None:
    """Find where the level of a series changed.

    FILE (`-` is standard input) is CSV with the columns label (or time) and value. Optional
    columns: series (if there are several), unit, direction. Rows with times or dates are sorted by
    time; other rows keep the order of the file. Ratios are new level / old level. A change is a
    candidate until the builds before and after it are measured again, interleaved.
    """
    found = compare_series(file, criteria, sensitivity=sensitivity)
    _refuse_assumed([each.better for each in found], fail_on)
    analyzed = [each.analyzed for each in found]
    if as_json:
        origins = [
            series_report.Origin(each.better.unit, each.better.basis, each.margin, each.is_sorted)
            for each in found
        ]
        margins = {each.margin for each in found}
        document = series_report.as_json(
            analyzed,
            origins,
            margin=margins.pop() if len(margins) == 1 else None,
            alpha=criteria.alpha,
        )
        print_json(document)
    else:
        points = counted(sum(each.n_points for each in analyzed), "point")
        n_series = counted(len(analyzed), "series", "series")
        named = [(each, each.analyzed.name) for each in found]
        better = _by_series((str(each.better), name) for each, name in named)
        margin = _by_series((margin_text(each.margin), name) for each, name in named)
        _print_heading(f"{points} in {n_series}", better, margin)
        _show_points(found, criteria.alpha)
    check(ci_gate.of_series(analyzed), fail_on)


def _show_points(found: Sequence[ComparedSeries], alpha: float) -> None:
    analyzed = [each.analyzed for each in found]
    sorted_names = [each.analyzed.name for each in found if each.is_sorted]
    if sentence := series_report.sorted_sentence(sorted_names, len(found)):
        out.print(sentence)
        out.print()
    points = [point for each in analyzed for point in each.points]
    if points:
        show_table(series_report.table(points, alpha), out)
        out.print()
    of_counts = [each.analyzed for each in found if counts_instructions(each.better.unit)]
    for line in (*series_report.counts_sentences(of_counts), *series_report.sentences(analyzed)):
        out.print(line)
    if of_counts:
        out.print(f"{NOT_SPEED}.")


def _by_series(texts: Iterable[tuple[str, str]]) -> str:
    """Return the text if all series share it, else each text with the names of its series."""
    names: dict[str, list[str]] = {}
    for text, name in texts:
        names.setdefault(text, []).append(name)
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{text} in {series_report.named(of)}" for text, of in names.items())


@command.group("import")
def import_command() -> None:
    """Convert the output of another benchmark for `analyze paired`."""


def _add_import(program: str, text: str, read: Callable[[Sequence[Path]], Imported]) -> None:
    """Add the command that converts a program's output, which ``read`` parses, to CSV."""

    @import_command.command(program, help=text)
    @click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
    @_base_option
    @click.option("-o", "--output", type=_FILE, help="Write to FILE instead of stdout.")
    def convert(files: tuple[Path, ...], base: str | None, output: Path | None) -> None:
        found = read(files)
        treatments = list(dict.fromkeys(each.treatment for each in found.values))
        chosen = paired.base_of("the import", treatments, base)
        text = paired.as_csv(found.values, found.measure, base=chosen)
        if output is None:
            echo(text)
        else:
            err.print(f"pairs: {write_text(output, text, PAIRS, option='-o')}")
        how = "" if base else " (the first one; --base selects another)"
        err.print(f"base: {chosen}{how}")
        err.print(f"values: {found.measure.better()}")
        for note in found.notes:
            err.print(note)


_OF_HYPERFINE = """Convert mean times in seconds from hyperfine's JSON.

    Each FILE is a block: run hyperfine once per block, with all commands, in a different order each
    time. The CSV states that lower values are better. Failed commands are an error."""
_OF_TEXT = """Convert {} from the output of {}.

    Each FILE is the output of one trial, named TREATMENT-BLOCK, such as old-1.log and new-1.log.
    All trials must have the same settings. Failures are counted in separate columns."""
_PROGRAMS: tuple[tuple[str, str, str, text_output.Reader], ...] = (
    ("sysbench", "the rate", "sysbench", sysbench.read),
    ("pgbench", "transactions per second", "pgbench", pgbench.read),
    ("mysqlslap", "mean times in s", "mysqlslap", mysqlslap.read),
    ("hammerdb", "new orders per minute (NOPM)", "HammerDB's TPROC-C", hammerdb.read),
)

_add_import("hyperfine", _OF_HYPERFINE, hyperfine.read)
for _name, _value, _program, _reader in _PROGRAMS:
    _read = functools.partial(text_output.read, _reader)
    _add_import(_name, _OF_TEXT.format(_value, _program), _read)
