"""Write runs and planned trials into the store, and identify the process that owns attempts."""

import json
import os
from collections.abc import Mapping

from millrace.experiment.model import Compare, Experiment, Factor, Plan, PlannedTrial
from millrace.levels import Level
from millrace.model import run_spec
from millrace.model.run_spec import Design, Extension, RunSpec
from millrace.quantities import utc_now
from millrace.servers.instances import processes
from millrace.servers.instances.processes import ProcessId
from millrace.store import records
from millrace.store.records import Owner, RunRecord, StoredRun
from millrace.store.store import Store
from millrace.workloads.defaults import interleaved


def new_run_record(
    plan: Plan,
    host: records.HostRecord,
    versions: Mapping[str, str],
    command: str,
    earlier_noise: tuple[run_spec.EarlierNoise, ...] = (),
) -> RunRecord:
    """Return the record of a new run; its id has the experiment's name and the time."""
    experiment = plan.experiment
    created = utc_now()
    stamp = created.replace("-", "").replace(":", "")[:15].replace("T", "-")
    return RunRecord(
        id=f"{experiment.name}-{stamp}-{os.urandom(2).hex()}",
        digest=plan.digest,
        name=experiment.name,
        title=experiment.title,
        scale=experiment.scale,
        created_utc=created,
        seed=plan.seed,
        blocks=experiment.blocks,
        margin=experiment.margin,
        host=host,
        versions=versions,
        spec=experiment_spec(experiment).replace(earlier_noise=earlier_noise),
        experiment_text=experiment.text,
        millrace_command=command,
    )


def experiment_spec(experiment: Experiment) -> RunSpec:
    """Return the experiment's stored specification, exactly as the store would read it."""
    spec = {
        "workload": experiment.workload,
        "configurations": {
            name: each.to_json() for name, each in experiment.configurations.items()
        },
        "factors": [vars(factor) for factor in experiment.factors],
        "compare": vars(experiment.compare),
        "parameters": experiment.parameters,
        "published": experiment.published,
        "source": experiment.source,
        "collectors": experiment.collectors,
        "design": design_of(experiment).to_json(),
        **experiment.campaign.to_json(),
    }
    return RunSpec.model_validate(json.loads(json.dumps(spec, default=dict)))


def experiment_of_run(
    run: RunRecord,
    *,
    name: str,
    title: str,
    configurations: Mapping[str, run_spec.ConfigurationDefinition],
    factors: tuple[Factor, ...],
    compare: Compare,
    blocks: int,
    margin: float,
    campaign: run_spec.CampaignPart,
    slices: bool,
    combinations: tuple[Mapping[str, Level], ...] = (),
) -> Experiment:
    """Return a new experiment with a run's workload, scale and parameters."""
    workload = run.spec.workload.to_json()
    return Experiment(
        name=name,
        title=title,
        scale=run.scale,
        workload=workload if slices else interleaved(workload),
        configurations=configurations,
        factors=factors,
        compare=compare,
        parameters=run.spec.parameters,
        blocks=blocks,
        margin=margin,
        collectors=(),
        profile_blocks=0,
        seed=None,
        published=None,
        source=f"run {run.id}",
        text=run.experiment_text,
        slices=slices,
        combinations=combinations,
        campaign=campaign,
    )


def design_of(experiment: Experiment) -> Design:
    """Return the design of the experiment's runs: kind, blocks, time limit and slices."""
    design = Design(
        kind="sequential" if experiment.sequential else "fixed",
        blocks=experiment.blocks,
        max_time_s=experiment.max_time_s,
        slices=experiment.slices,
    )
    left_out = experiment.left_out_tests
    return design.replace(left_out_tests=left_out) if left_out else design


def begin_run(store: Store, run: RunRecord, plan: Plan, extension: Extension | None = None) -> None:
    """Write the run, its treatments and the trials of the plan; keep existing rows."""
    treatments = [
        records.TreatmentRecord(each.id, position, dict(each.levels), dict(each.resolved))
        for position, each in enumerate(plan.treatments)
    ]
    trials = [
        records.TrialRecord(
            stored_trial_id(run, each), each.treatment.id, each.block, each.position, each.purpose
        )
        for each in plan.trials
    ]
    store.begin_run(run, treatments, trials, extension=extension)


def stored_trial_id(run: RunRecord, trial: PlannedTrial) -> str:
    """Return the id of a trial in the store: the run's id, and the id in the plan."""
    return f"{run.id}/{trial.id}"


def waiting_trials(stored: StoredRun, plan: Plan, *, retry_failed: bool) -> set[str]:
    """Return the plan's ids of trials without a result; ``retry_failed``: or with a failed one."""
    done = {
        trial
        for trial, attempt in stored.last_attempts().items()
        if attempt.outcome == "finished" or not retry_failed
    }
    return {trial.id for trial in plan.trials if stored_trial_id(stored.run, trial) not in done}


def this_process(host_id: str) -> Owner:
    """Return this process as the owner of attempts on a host."""
    process = ProcessId.of(os.getpid())
    assert process is not None
    return Owner(host_id, processes.boot_id(), process.pid, process.started_ticks)


def is_alive(owner: Owner) -> bool:
    """Return whether the owner, a process of this host, still runs; false after a reboot."""
    process = ProcessId(owner.pid, owner.started_ticks)
    return owner.boot_id == processes.boot_id() and process.exists()
