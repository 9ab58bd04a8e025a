"""Carrying a plan out from a command: what a run is recorded with, what it needs, its progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from millrace import __version__, paths
from millrace.cli.console import err
from millrace.cli.plan import estimate_or_refuse
from millrace.cli.progress import RunProgress
from millrace.cli.servers import DownloadBar
from millrace.errors import Interrupted
from millrace.experiment.model import Plan
from millrace.load import client as load
from millrace.runner import cpu_wakeup, doctor, host, prepare
from millrace.runner import run as runner
from millrace.runner.continuing import Chosen
from millrace.runner.cpu_wakeup import Rule
from millrace.servers.model import InstalledServer
from millrace.store.records import HostRecord, RunRecord, StoredRun
from millrace.store.store import Store


def carry_out(stack: ExitStack, store: Store, chosen: Chosen, *, retry_failed: bool) -> None:
    """Carry out what has no result yet of a run; what that needs is there until ``stack`` ends."""
    run, plan = chosen.run, chosen.plan
    waiting = {trial.id for trial in plan.trials}
    if not chosen.is_new:
        waiting &= runner.waiting_trials(store, run, plan, retry_failed=retry_failed)
    if not waiting:
        _announce(run, len(store.load_run(run.id).trials), 0)
        return
    prepare.refuse_missing_cpus(plan.experiment)
    prepare.refuse_attached(plan)
    estimate = estimate_or_refuse(plan, store)
    given = _prepare(stack, plan, None if chosen.is_new else store.load_run(run.id))
    runner.begin(store, run, plan, chosen.extension)
    _announce(run, len(plan.trials), len(waiting))
    with _saying_how_to_continue(), RunProgress(plan, waiting, estimate.time_s) as watch:
        runner.carry_out(store, run, given, watch, retry_failed=retry_failed)


@contextmanager
def _saying_how_to_continue() -> Iterator[None]:
    try:
        yield
    except Interrupted as stopped:
        remedy = "the same command continues where it was stopped"
        raise Interrupted(stopped.message, remedy=remedy) from None


def new_run(plan: Plan) -> Chosen:
    """A run of a plan that begins here and now, whatever there was before."""
    run = runner.new_run_record(plan, host_record(), versions(), command_line())
    return Chosen(run, plan, is_new=True)


def host_record() -> HostRecord:
    """The facts of this host now, with doctor's findings."""
    facts = host.facts(paths.work_dir())
    findings = [finding.as_data() for finding in doctor.examine(facts, paths.work_dir())]
    return HostRecord(host.host_id(facts), {**facts, "findings": findings})


def versions() -> dict[str, str]:
    """The versions that a run is recorded with."""
    return {"millrace": __version__, **load.versions()}


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["millrace", *sys.argv[1:]])


def _prepare(stack: ExitStack, plan: Plan, earlier: StoredRun | None) -> runner.RunInput:
    work_dir = prepare.work_directory(paths.work_dir())
    with DownloadBar() as bar:
        servers = prepare.installed_servers(plan, bar)
    treatments = prepare.treatments(plan, servers)
    for told in prepare.indifferent_options(treatments.values()):
        err.print(told, markup=False)
    expected = prepare.expected_data(plan.experiment)
    data_file = prepare.data_file(plan.experiment, treatments, work_dir)
    return runner.RunInput(
        plan,
        treatments,
        expected,
        stack.enter_context(data_file),
        _rule(plan, treatments.values(), earlier),
    )


def _rule(
    plan: Plan, treatments: Collection[runner.PreparedTreatment], earlier: StoredRun | None
) -> Rule | None:
    ours = all(isinstance(each.server, InstalledServer) for each in treatments)
    return cpu_wakeup.rule_of(
        [treatment.work for treatment in treatments],
        plan.experiment.compare.factor,
        earlier,
        placeable=ours and not plan.experiment.parameters.get("client_cpus"),
    )


def _announce(run: RunRecord, total: int, n_waiting: int) -> None:
    if not n_waiting:
        text = f"run {run.id}: all {total} trials have a result; --new measures again"
    elif n_waiting < total:
        text = f"run {run.id}: continued, {n_waiting} of {total} trials to go"
    else:
        text = f"run {run.id}: {total} trials, seed {run.seed}"
    err.print(text, markup=False)
