"""``millrace run``: carry an experiment out, or continue it."""

from __future__ import annotations

import secrets
import shlex
import sys
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import click

from millrace import __version__, paths
from millrace.analysis.judge import judge
from millrace.cli.console import err, out
from millrace.cli.experiment_options import ExperimentChoice, experiment_options
from millrace.cli.plan import estimate_or_refuse
from millrace.cli.progress import RunProgress
from millrace.cli.quiet_host import quiet_host
from millrace.cli.servers import DownloadBar
from millrace.cli.store_option import store_option
from millrace.errors import Interrupted, TrialFailed
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.plan import expand
from millrace.load import client as load
from millrace.report import html, terminal
from millrace.runner import doctor, host, prepare
from millrace.runner import run as runner
from millrace.store.records import HostRecord, RunRecord
from millrace.store.store import Store


@click.command()
@experiment_options
@store_option
@click.option("--new", "fresh", is_flag=True, help="Start a new run, even if one can be continued.")
def command(choice: ExperimentChoice, store: Path, fresh: bool) -> None:
    """Carry out the experiment in FILE, or continue it where it was stopped.

    Installs the servers it needs, runs every trial that has no result yet, prints the verdicts and
    writes an HTML report beside the store. Exit status 3 when a trial failed.
    """
    experiment = choice.read()
    with ExitStack() as stack:
        stack.enter_context(quiet_host(f"run {experiment.name}"))
        opened = stack.enter_context(Store.open(store))
        run, plan = _run_and_plan(opened, experiment, fresh)
        _carry_out(stack, opened, run, plan)
        _report(opened, run, experiment.margin)


def _run_and_plan(store: Store, experiment: Experiment, fresh: bool) -> tuple[RunRecord, Plan]:
    """The run to continue, or a new one, and its plan."""
    facts = host.facts(paths.work_dir())
    host_id = host.host_id(facts)
    plan = expand(experiment, seed=_seed(experiment))
    known = None if fresh else store.latest_run(plan.digest, host_id, seed=experiment.seed)
    if known is not None and runner.measures_the_same(known, experiment):
        # A finished run can be given more blocks.
        return replace(known, blocks=experiment.blocks), expand(experiment, seed=known.seed)
    findings = [asdict(finding) for finding in doctor.examine(facts, paths.work_dir())]
    record = HostRecord(host_id, {**facts, "findings": findings})
    versions = {"millrace": __version__, **load.versions()}
    return runner.new_run_record(plan, record, versions, shlex.join(sys.argv)), plan


def _seed(experiment: Experiment) -> int:
    return secrets.randbelow(1 << 31) if experiment.seed is None else experiment.seed


def _carry_out(stack: ExitStack, store: Store, run: RunRecord, plan: Plan) -> None:
    bar = stack.enter_context(DownloadBar())
    servers = prepare.installed_servers(plan, bar)
    estimate = estimate_or_refuse(plan, store)
    arms = prepare.arms(plan, servers)
    expected = prepare.expected_data(plan.experiment)
    data_file = stack.enter_context(prepare.data_file(plan, paths.work_dir()))
    runner.begin(store, run, plan)
    waiting = runner.waiting_trials(store, run, plan)
    _announce(run, plan, len(waiting))
    if waiting:
        given = runner.RunInput(plan, arms, expected, data_file)
        try:
            with RunProgress(plan, waiting, estimate.time_s) as progress:
                runner.carry_out(store, run, given, progress)
        except Interrupted as stopped:
            raise Interrupted(
                stopped.message, remedy="the same command continues where it was stopped"
            ) from None


def _announce(run: RunRecord, plan: Plan, n_waiting: int) -> None:
    total = len(plan.trials)
    if not n_waiting:
        text = f"run {run.id}: all {total} trials have a result; --new measures again"
    elif n_waiting < total:
        text = f"run {run.id}: continued, {n_waiting} of {total} trials to go"
    else:
        text = f"run {run.id}: {total} trials, seed {run.seed}"
    err.print(text, markup=False)


def _report(store: Store, run: RunRecord, margin: float) -> None:
    analysis = judge(store.load_run(run.id), margin=margin)
    terminal.show(analysis, out)
    path = html.write(analysis, store.path.parent / "reports" / f"{run.id}.html")
    out.print(f"report: {path}", markup=False)
    if analysis.failures:
        raise TrialFailed(
            f"{len(analysis.failures)} of {len(analysis.trials)} trials failed",
            remedy=f"`millrace results show {run.id}` has each reason and the server's log",
        )
