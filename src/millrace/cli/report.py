"""Provide ``millrace report``: show the results of a run."""

from pathlib import Path

import click

from millrace.analysis.ci_gate import Gated
from millrace.analysis.compare.bisection import Bisection
from millrace.analysis.counts.compare_counts import CountedRun
from millrace.app import report as use_case
from millrace.app.report import BisectionReport
from millrace.cli.console import echo, err, out, print_json
from millrace.cli.fail_on import check_run, fail_on_option
from millrace.cli.options import OUTPUT_FILE, Percent, margin_option, store_option
from millrace.errors import UserError
from millrace.output_files import PAGE, write_text
from millrace.report import bisection, counts
from millrace.report.common.terminal_table import show_table
from millrace.report.run import html, terminal
from millrace.report.run.formats import FORMATS, REPORTS, render


@click.command()
@click.argument("run", default="latest")
@store_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    default="terminal",
    show_default=True,
    help="Without --output, HTML goes to `reports/` next to the store, other formats to stdout.",
)
@click.option("--output", type=OUTPUT_FILE, help="Write to FILE; its directory must exist.")
@margin_option(
    "The smallest difference that matters (default: the experiment's).",
    Percent(0, 100, min_open=True, max_open=True),
)
@click.option(
    "--base", metavar="LEVEL", help="The base of the comparisons (default: the experiment's)."
)
@fail_on_option
def command(
    *,
    run: str,
    store: Path,
    output_format: str,
    output: Path | None,
    margin: float | None,
    base: str | None,
    fail_on: tuple[Gated, ...],
) -> None:
    """Show the verdicts of RUN (an id, its beginning, or `latest`).

    Measures nothing: verdicts come from the stored trials, so you can choose another margin or base
    at any time. `latest` is the newest run that was measured here. With --fail-on, an imported run
    must be named by its full id.
    """
    is_page = output_format == "html"
    fraction = None if margin is None else margin / 100
    found = use_case.report(store, run, margin=fraction, base=base, gates=bool(fail_on))
    if isinstance(found, BisectionReport):
        if fail_on:
            raise UserError(
                f"run {found.found.run.id} is a bisection, which has no verdicts",
                hint="leave out --fail-on",
            )
        _report_bisection(found, output_format, output)
        return
    if isinstance(found, CountedRun):
        if fail_on or margin is not None:
            raise UserError(
                f"run {found.run.id} counts instructions: it has no margin or verdicts on speed",
                hint="leave out --margin and --fail-on; scripts read --format json",
            )
        _show_counts(found, output_format, output)
        return
    analysis, explanations = found.analysis, found.explanations
    if output is not None:
        text = html.as_html(analysis, explanations) if is_page else render(analysis, output_format)
        written = write_text(output, text, REPORTS[output_format])
        err.print(f"report: {written}")
    elif is_page:
        out.print(str(html.write(analysis, found.page, explanations)))
    elif output_format == "terminal":
        terminal.show(analysis, out)
    else:
        echo(render(analysis, output_format))
    if fail_on:
        check_run(analysis, fail_on)


def show_bisection(found: Bisection) -> None:
    """Print the answer of a bisection, its servers and its notes."""
    out.print()
    out.print(bisection.answer(found))
    out.print()
    show_table(bisection.members_table(found), out)
    for line in bisection.notes(found):
        out.print(f"note: {line}")


def _report_bisection(report: BisectionReport, output_format: str, output: Path | None) -> None:
    """Print a bisection's report, or write its page; raise UserError for other formats."""
    found = report.found
    if output_format == "html":
        page, is_ours = output or report.page, output is None
        path = write_text(page, bisection.as_html(found), PAGE, make_directory=is_ours)
        (out if is_ours else err).print(str(path) if is_ours else f"report: {path}")
    elif output_format == "json" and output is None:
        print_json(bisection.as_json(found))
    elif output_format == "terminal" and output is None:
        show_bisection(found)
    else:
        raise _no_format(
            f"run {found.run.id} is a bisection",
            output_format,
            output,
            hint="use --format terminal or json (both to standard output), or html",
        )


def _show_counts(found: CountedRun, output_format: str, output: Path | None) -> None:
    """Print the counts of a run; raise UserError for formats that they do not have."""
    if output_format == "terminal" and output is None:
        counts.show(found, out)
    elif output_format == "json" and output is None:
        print_json(counts.as_json(found))
    else:
        raise _no_format(
            f"run {found.run.id} counts instructions",
            output_format,
            output,
            hint="use --format terminal or json, both to standard output; `millrace count FILE "
            "--flame-graph GRAPH` draws the counts",
        )


def _no_format(what: str, output_format: str, output: Path | None, *, hint: str) -> UserError:
    place = "" if output is None else " in a file"
    return UserError(f"{what}: no report of the format {output_format}{place}", hint=hint)
