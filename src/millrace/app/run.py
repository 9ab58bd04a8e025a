"""Carrying a plan out from a command: what a run is recorded with, what it needs, its progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from millrace import __version__, durations, paths
from millrace.app import doctor
from millrace.app.concurrency_gate import refuse_uncalibrated
from millrace.campaign import prepare, resume
from millrace.campaign import scheduler as runner
from millrace.campaign.policies import sequential
from millrace.campaign.resume import Chosen
from millrace.cli.console import err
from millrace.cli.plan import estimate_or_refuse
from millrace.cli.progress import RunProgress
from millrace.cli.servers import DownloadBar
from millrace.errors import Interrupted
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Experiment, Plan
from millrace.host import cpuset
from millrace.host import facts as host
from millrace.loadgen import client as load
from millrace.model.servers import InstalledServer
from millrace.store.records import HostRecord, RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial import cpu_idle
from millrace.trial.cpu_idle import Rule
from millrace.trial.resolved_workload import DataFile

CONTINUES = "the same command continues where it was stopped"


def carry_out(stack: ExitStack, store: Store, chosen: Chosen, *, retry_failed: bool) -> None:
    """Carry out what has no result yet of a run; what that needs is there until ``stack`` ends."""
    if chosen.plan.experiment.sequential:
        _go_on(stack, store, chosen, retry_failed=retry_failed)
        return
    run, plan = chosen.run, chosen.plan
    waiting = {trial.id for trial in plan.trials}
    if not chosen.is_new:
        stored = store.load_run(run.id)
        waiting &= runner.waiting_trials(stored, plan, retry_failed=retry_failed)
    if not waiting:
        err.print(line_of_fixed(run, len(store.load_run(run.id).trials), 0), markup=False)
        return
    given, estimate = _ready(stack, store, chosen)
    runner.begin(store, run, plan, chosen.extension)
    err.print(line_of_fixed(run, len(plan.trials), len(waiting)), markup=False)
    with saying_how_to_continue(), RunProgress(plan, waiting, estimate.time_s) as watch:
        runner.carry_out(store, run, given, watch, retry_failed=retry_failed)


def _go_on(stack: ExitStack, store: Store, chosen: Chosen, *, retry_failed: bool) -> None:
    """Carry a sequential run on, block by block, as far as it is not decided."""
    now = sequential.progress(store, chosen, retry_failed=retry_failed)
    err.print(line_of_sequential(chosen, now), markup=False)
    if now.is_over:
        return
    given, estimate = _ready(stack, store, chosen)
    trial_s = estimate.time_s / sum(trial.hosts for trial in chosen.plan.trials)
    ended = {trial.id for trial in now.begun} - {trial.id for trial in now.waiting}
    open_trials = {trial.id for trial in chosen.plan.trials} - ended
    watched = RunProgress(chosen.plan, open_trials, estimate.time_s)
    with saying_how_to_continue(), watched as watch:
        sequential.carry_out(
            store, chosen, given, watch, retry_failed=retry_failed, unknown_s=trial_s
        )


def _ready(stack: ExitStack, store: Store, chosen: Chosen) -> tuple[runner.RunInput, Estimate]:
    """All that a run needs, and what it will take. Raises what refuses it."""
    plan = chosen.plan
    prepare.refuse_missing_cpus(plan.experiment)
    prepare.refuse_attached(plan)
    refuse_uncalibrated(store, chosen.run, plan)
    estimate = estimate_or_refuse(plan, store)
    earlier = None if chosen.is_new else store.load_run(chosen.run.id)
    return run_input(stack, plan, earlier), estimate


@contextmanager
def saying_how_to_continue() -> Iterator[None]:
    """An interruption is told with what goes on from there."""
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(stopped.message, hint=CONTINUES) from None


def choose(store: Store, experiment: Experiment, *, fresh: bool) -> Chosen:
    """The run that this command continues, or a new one; it is told why an earlier one is not."""
    chosen = resume.choose(
        store,
        experiment,
        host=host_record(),
        versions=versions(),
        command=command_line(),
        fresh=fresh,
    )
    if chosen.told is not None:
        err.print(chosen.told, markup=False)
    return chosen


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


def run_input(
    stack: ExitStack, plan: Plan, earlier: StoredRun | None, data_file: DataFile | None = None
) -> runner.RunInput:
    """What the trials of a plan need, there until ``stack`` ends: servers that are installed, the
    options that each can have, data. ``data_file`` is one that is there for the experiment
    already."""
    work_dir = prepare.work_directory(paths.work_dir())
    with DownloadBar() as bar:
        servers = prepare.installed_servers(plan, bar)
    treatments = prepare.treatments(plan, servers)
    for told in prepare.indifferent_options(treatments.values()):
        err.print(told, markup=False)
    expected = prepare.expected_data(plan.experiment)
    if data_file is None:
        made = prepare.data_file(plan.experiment, treatments, work_dir)
        data_file = stack.enter_context(made)
    return runner.RunInput(
        plan,
        treatments,
        expected,
        data_file,
        _rule(plan, treatments.values(), earlier),
        cpuset.cpu_partitions() if plan.experiment.side_by_side else None,
    )


def _rule(
    plan: Plan, treatments: Collection[runner.PreparedTreatment], earlier: StoredRun | None
) -> Rule | None:
    ours = all(isinstance(each.server, InstalledServer) for each in treatments)
    return cpu_idle.rule_of(
        [treatment.work for treatment in treatments],
        plan.experiment.compare.factor,
        earlier,
        placeable=ours and not plan.experiment.parameters.get("client_cpus"),
    )


def line_of_fixed(run: RunRecord, total: int, n_waiting: int) -> str:
    """Return the first line about a run of so many trials: what it has, and how it goes on."""
    if not n_waiting:
        more = "--new measures again" if run.spec.confirms is None else "more --blocks add to them"
        return f"run {run.id}: all {total} trials have a result; {more}"
    if n_waiting < total:
        return f"run {run.id}: continued, {n_waiting} of {total} trials to go"
    return f"run {run.id}: {total} trials, seed {run.seed}"


def line_of_sequential(chosen: Chosen, now: sequential.Progress) -> str:
    """The first line about a sequential run: what it has, and how it goes on."""
    experiment, run = chosen.plan.experiment, chosen.run
    found = now.status
    limits = f"at most {experiment.blocks} blocks"
    if experiment.max_time_s is not None:
        limits += f" and {durations.in_words(experiment.max_time_s)}"
    if found is None:
        return f"run {run.id}: until each comparison is decided, {limits}, seed {run.seed}"
    had = f"run {run.id}: {found.blocks} block{'' if found.blocks == 1 else 's'}"
    if not now.is_over:
        return f"{had} begun, continued until each comparison is decided, {limits}"
    if now.ending == "closed":
        return f"{had}, and nothing is left to decide; --new measures again"
    more = "--max-blocks" if now.ending == "blocks" else "--max-time"
    return (
        f"{had}, {len(found.open)} of {len(found.comparisons)} comparisons undecided, and no more "
        f"are allowed: {more} goes on, --new measures again"
    )
