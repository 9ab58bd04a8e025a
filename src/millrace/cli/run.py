"""Provide ``millrace run``: measure an experiment, or resume it."""

from pathlib import Path

import click

from millrace.analysis.ci_gate import Gated
from millrace.app import execution as use_case
from millrace.cli.console import out
from millrace.cli.event_text import calling
from millrace.cli.experiment_options import ExperimentChoice, experiment_options
from millrace.cli.fail_on import check_run, fail_on_option
from millrace.cli.options import store_option
from millrace.cli.plan import note_if_nothing_compared
from millrace.report.run import html, terminal


@click.command()
@experiment_options
@store_option
@click.option("--new", "fresh", is_flag=True, help="Start a new run, even if one can be resumed.")
@click.option("--retry-failed", is_flag=True, help="Repeat the trials that failed.")
@fail_on_option
def command(
    choice: ExperimentChoice,
    store: Path,
    fresh: bool,
    retry_failed: bool,
    fail_on: tuple[Gated, ...],
) -> None:
    """Measure the experiment in FILE, or resume it where it stopped.

    Installs the servers it needs and measures block by block until each comparison is decided or a
    limit is reached (with --blocks, exactly that many blocks). Prints the verdicts and writes an
    HTML report next to the store. Exit status 3 when a trial failed, 4 when this host cannot
    continue; the same command resumes.
    """
    experiment = choice.read()
    note_if_nothing_compared(experiment)
    with calling() as caller:
        found = use_case.run(store, experiment, caller, fresh=fresh, retry_failed=retry_failed)
    analysis = found.analysis
    terminal.show(analysis, out)
    out.print(f"report: {html.write(analysis, found.page, found.explanations)}")
    check_run(analysis, fail_on)
