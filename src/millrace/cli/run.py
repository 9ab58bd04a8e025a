"""``millrace run``: carry an experiment out, or continue it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from millrace.analysis.compare import ci_gate
from millrace.analysis.compare.ci_gate import Gated
from millrace.analysis.compare.compare_run import compare_run
from millrace.app import run as carrying_out
from millrace.app.calibration_quote import with_calibration
from millrace.app.explain import explanations_of_report, tests_of
from millrace.cli.console import out
from millrace.cli.exclusive_host import quiet_host
from millrace.cli.experiment_options import ExperimentChoice, experiment_options
from millrace.cli.fail_on import check, fail_on_option
from millrace.cli.plan import say_nothing_compared
from millrace.cli.store_option import store_option
from millrace.errors import TrialFailed
from millrace.experiment.model import Experiment
from millrace.report.run import html, terminal
from millrace.store.records import RunRecord
from millrace.store.store import Store


@click.command()
@experiment_options
@store_option
@click.option("--new", "fresh", is_flag=True, help="Start a new run, even if one can be continued.")
@click.option("--retry-failed", is_flag=True, help="Try the trials again that failed.")
@fail_on_option
def command(
    choice: ExperimentChoice,
    store: Path,
    fresh: bool,
    retry_failed: bool,
    fail_on: tuple[Gated, ...],
) -> None:
    """Carry out the experiment in FILE, or continue it where it was stopped.

    Installs the servers it needs and goes on block by block until each comparison is decided or
    the limit is reached (with --blocks, for exactly so many blocks), prints the verdicts and writes
    an HTML report beside the store. Exit status 3 when a trial failed, 4 when this host could not
    go on: the same command resumes.
    """
    experiment = choice.read()
    say_nothing_compared(experiment)
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"run {experiment.name}"))
        opened = stack.enter_context(Store.open(store))
        chosen = carrying_out.choose(opened, experiment, fresh=fresh)
        carrying_out.carry_out(stack, opened, chosen, retry_failed=retry_failed)
        _report(opened, chosen.run, experiment, fail_on)


def _report(
    store: Store, run: RunRecord, experiment: Experiment, fail_on: tuple[Gated, ...]
) -> None:
    base = str(experiment.compare.base)
    stored = store.load_run(run.id, observations_too=True)
    analysis = with_calibration(store, compare_run(stored, margin=experiment.margin, base=base))
    terminal.show(analysis, out)
    explanations = explanations_of_report(stored, analysis.base, tests_of(store, run.id))
    path = html.write(analysis, store.report_path(run.id), explanations)
    out.print(f"report: {path}", markup=False)
    if analysis.failures:
        raise TrialFailed(
            f"{len(analysis.failures)} of {len(analysis.trials)} trials failed",
            hint=f"`millrace results show {run.id}` has each reason and the server's log",
        )
    check(ci_gate.of_run(analysis), fail_on)
