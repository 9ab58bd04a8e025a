"""Carries a plan out, one trial after another, and keeps what each one gave.

Every trial is a row in the store before it runs and is claimed by this process; what an interrupted
run left open is ended and taken up again, what is finished is never repeated. While a trial
measures, nothing is written but lines in the run's event file beside the store.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from millrace.errors import HostProblem, Interrupted
from millrace.experiment.model import Experiment, Plan, PlannedTrial, Treatment
from millrace.load import client as load
from millrace.runner import ownership, phases
from millrace.runner.trial import TrialInput, carry_out_trial
from millrace.servers.model import FittedOptions, Server
from millrace.store.events import EventLog
from millrace.store.records import (
    AttemptResult,
    HostRecord,
    RunRecord,
    TreatmentRecord,
    TrialRecord,
)
from millrace.store.store import Store

_KEEP_TRIES = 10
_KEEP_PAUSE_S = 3.0

Watcher = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Arm:
    """What a treatment runs on: its server, and its configuration fitted to that server."""

    server: Server
    options: FittedOptions


@dataclass(frozen=True)
class RunInput:
    """All that a run needs. ``arms`` has one entry a treatment, by treatment id."""

    plan: Plan
    arms: Mapping[str, Arm]
    expected: load.DataChecksum
    data_file: phases.DataFile | None


def new_run_record(
    plan: Plan, host: HostRecord, versions: Mapping[str, str], command: str
) -> RunRecord:
    """The record of a run that starts now; its id holds the experiment's name and the time."""
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
        spec=_spec(experiment),
        experiment_text=experiment.text,
        millrace_command=command,
    )


def _spec(experiment: Experiment) -> dict[str, Any]:
    """The experiment as plain data, as it is read back from JSON."""
    spec = {
        "workload": experiment.workload,
        "configurations": experiment.configurations,
        "factors": [
            {"name": factor.name, "levels": factor.levels, "aliases": factor.aliases}
            for factor in experiment.factors
        ],
        "compare": {"factor": experiment.compare.factor, "base": experiment.compare.base},
        "parameters": experiment.parameters,
        "published": experiment.published,
        "source": experiment.source,
    }
    plain: dict[str, Any] = json.loads(json.dumps(spec, default=dict))
    return plain


def utc_now() -> str:
    """This instant, UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(store: Store, run: RunRecord, plan: Plan) -> None:
    """Write the run, its treatments and its trials; those that are there already stay."""
    store.begin_run(
        run,
        [_treatment_record(position, each) for position, each in enumerate(plan.treatments)],
        [_trial_record(run, trial) for trial in plan.trials],
    )


def _treatment_record(position: int, treatment: Treatment) -> TreatmentRecord:
    return TreatmentRecord(treatment.id, position, dict(treatment.levels), dict(treatment.resolved))


def _trial_record(run: RunRecord, trial: PlannedTrial) -> TrialRecord:
    return TrialRecord(stored_trial_id(run, trial), trial.treatment.id, trial.block, trial.position)


def stored_trial_id(run: RunRecord, trial: PlannedTrial) -> str:
    """The trial's id in the store: a plan's ids are the same in every run of it."""
    return f"{run.id}/{trial.id}"


def measures_the_same(run: RunRecord, experiment: Experiment) -> bool:
    """Whether a run of the same digest also has the same factors and comparison, so that it can be
    continued; its number of blocks may grow, its margin is a matter of the report."""
    return {**run.spec, "source": None} == {**_spec(experiment), "source": None}


def waiting_trials(store: Store, run: RunRecord, plan: Plan) -> set[str]:
    """The ids of the plan's trials that have no result yet."""
    done = store.load_run(run.id).last_attempts()
    return {trial.id for trial in plan.trials if stored_trial_id(run, trial) not in done}


def carry_out(store: Store, run: RunRecord, given: RunInput, watch: Watcher) -> None:
    """Carry out every trial of the plan that has no end yet.

    ``watch`` and the run's event file get the events: those of a trial (see
    runner.trial.carry_out_trial), and {"event": "trial" | "end", "trial", "treatment", "block",
    "position", "outcome", "duration_s", "reason"} around it. Raises Interrupted after the open
    attempt was recorded as interrupted.
    """
    owner = ownership.this_process(run.host.id)
    with EventLog(store.events_path(run.id)) as log:

        def announce(event: Mapping[str, Any]) -> None:
            log.append(event)
            watch(event)

        for trial in given.plan.trials:
            attempt = store.claim(
                stored_trial_id(run, trial), owner, utc_now(), is_alive=ownership.is_alive
            )
            if attempt is not None:
                _attempt(store, attempt, trial, given, announce)


def _keep(store: Store, attempt: int, result: AttemptResult) -> None:
    """Write a trial's result; a full disk gets some seconds, since the trial's own files, often on
    the same disk, have just been removed."""
    for _ in range(_KEEP_TRIES - 1):
        try:
            return store.finish(attempt, result, utc_now())
        except HostProblem:
            time.sleep(_KEEP_PAUSE_S)
    return store.finish(attempt, result, utc_now())


def _attempt(
    store: Store,
    attempt: int,
    trial: PlannedTrial,
    given: RunInput,
    announce: Watcher,
) -> None:
    about = {
        "trial": trial.id,
        "treatment": trial.treatment.label,
        "treatment_id": trial.treatment.id,
        "block": trial.block,
        "position": trial.position,
    }
    arm = given.arms[trial.treatment.id]
    data_file = given.data_file if phases.reads_a_file(trial.treatment.resolved) else None
    trial_input = TrialInput(
        trial=trial,
        server=arm.server,
        options=arm.options,
        workload=given.plan.experiment.workload,
        parameters=given.plan.experiment.parameters,
        expected=given.expected,
        data_file=data_file,
    )
    announce({"event": "trial", **about})
    try:
        result = carry_out_trial(trial_input, announce)
    except BaseException as cause:
        reason = str(cause) if isinstance(cause, Interrupted) else f"millrace stopped: {cause!r}"
        store.finish(attempt, AttemptResult("interrupted", reason=reason), utc_now())
        raise
    _keep(store, attempt, result)
    announce(
        {
            "event": "end",
            **about,
            "outcome": result.outcome,
            "failed_step": result.failed_step,
            "reason": result.reason,
        }
    )
