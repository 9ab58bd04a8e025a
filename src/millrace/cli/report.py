"""``millrace report``: show what a run found."""

from __future__ import annotations

from pathlib import Path

import click

from millrace.analysis.compare import ci_gate
from millrace.analysis.compare.bisection import bisection
from millrace.analysis.compare.ci_gate import Gated
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.app.calibration_quote import with_calibration
from millrace.app.explain import explanations_of_report, tests_of
from millrace.cli import bisect_output
from millrace.cli.console import echo, err, out
from millrace.cli.fail_on import check, fail_on_option
from millrace.cli.number_options import Percent
from millrace.cli.store_option import store_option
from millrace.errors import UserError
from millrace.report.common.output_files import write_text
from millrace.report.run import html, terminal
from millrace.report.run.formats import FORMATS, REPORTS, render
from millrace.store.store import Store


@click.command()
@click.argument("run", default="latest")
@store_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    default="terminal",
    show_default=True,
    help="Without --output, HTML goes to `reports/` beside the store, all else to stdout.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE, in a directory that exists.",
)
@click.option(
    "--margin",
    type=Percent(0, 100, min_open=True, max_open=True),
    metavar="PERCENT",
    help="The smallest difference that matters; the experiment's own unless given.",
)
@click.option("--base", metavar="LEVEL", help="Compare with this level instead.")
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
    """Show what RUN (an id, its beginning, or `latest`) found.

    Nothing is measured again: verdicts come from the stored trials, so that a report can be had
    with another margin or another base at any time.
    """
    with Store.open(store, read_only=True) as opened:
        is_page = output_format == "html"
        # Verdicts look at observed plans, and are the same in every format.
        stored = opened.load_run(opened.find_run(run).id, observations_too=True)
        if stored.run.spec.bisects is not None:
            if fail_on:
                raise UserError(
                    f"run {stored.run.id} is a bisection, which has no verdicts",
                    hint="leave out --fail-on",
                )
            page = opened.report_path(stored.run.id)
            bisect_output.report(bisection(stored), output_format, output, page)
            return
        tests = tests_of(opened, stored.run.id) if is_page else ()
        analysis = with_calibration(
            opened, compare_run(stored, margin=None if margin is None else margin / 100, base=base)
        )
    explanations = explanations_of_report(stored, analysis.base, tests) if is_page else ()
    if output is not None:
        text = html.as_html(analysis, explanations) if is_page else render(analysis, output_format)
        written = write_text(output, text, REPORTS[output_format])
        err.print(f"report: {written}", markup=False)
    elif is_page:
        path = store.parent / "reports" / f"{analysis.run.id}.html"
        out.print(str(html.write(analysis, path, explanations)), markup=False)
    else:
        _show(analysis, output_format)
    check(ci_gate.of_run(analysis), fail_on)


def _show(analysis: RunAnalysis, output_format: str) -> None:
    if output_format == "terminal":
        terminal.show(analysis, out)
    else:
        echo(render(analysis, output_format))
