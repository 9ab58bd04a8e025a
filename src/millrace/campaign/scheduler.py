"""Carries a plan out, one trial after another, and keeps what each one gave; or one pair after
another, where they are measured side by side.

Every trial is a row in the store before it runs and is claimed by this process; what an interrupted
run left open is ended and taken up again, what is finished is never repeated. While a trial
measures, nothing is written but lines in the run's event file beside the store. The results of a
pair are written together: there is no pair of which only one counts.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from millrace.campaign import ownership
from millrace.collect.registry import PROFILE
from millrace.errors import HostError, MillraceError
from millrace.experiment.concurrent_pairs import held
from millrace.experiment.model import Experiment, Plan, PlannedTrial, Treatment
from millrace.experiment.slowdown import Slowdown
from millrace.host.cpuset import CpuPartition
from millrace.loadgen import client as load
from millrace.model.events import Event, ResultWaits, TrialBegan, TrialEnded, TrialEvent
from millrace.model.run_spec import Design, Extension, RunSpec
from millrace.model.servers import FittedOptions, Server
from millrace.servers.instances.signals import signals_held
from millrace.store import database, observations
from millrace.store.checked import to_plain
from millrace.store.events import EventLog
from millrace.store.records import (
    BESIDE,
    AttemptResult,
    HostRecord,
    RunRecord,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)
from millrace.store.store import Store
from millrace.trial.concurrent_pair import PairTrial, execute_pair
from millrace.trial.cpu_idle import Control, Rule
from millrace.trial.execute import execute_trial
from millrace.trial.measure import TrialSpec
from millrace.trial.resolved_workload import DataFile, ResolvedWorkload
from millrace.trial.transient import TransientFailure
from millrace.utc import utc_now

_KEEP_TRIES = 10
_KEEP_PAUSE_S = 3.0

Watcher = Callable[[Event], None]


@dataclass(frozen=True)
class PreparedTreatment:
    """What a treatment runs: its server, its configuration fitted to that server, its work, and
    what slows it down."""

    server: Server
    options: FittedOptions
    work: ResolvedWorkload
    slowdown: Slowdown | None = None


@dataclass(frozen=True)
class RunInput:
    """All that a run needs; ``treatments`` are by treatment id. ``rule`` decides what is
    done about sleeping CPUs, None where no work has ``connections``. ``halves`` are the CPUs of
    each side, None where trials take turns. With ``stop_at_host_problems`` a trial that fails for
    the sake of the host, by what may pass, has no result, and the run stops there with a
    HostError."""

    plan: Plan
    treatments: Mapping[str, PreparedTreatment]
    expected: load.DataChecksum | None
    data_file: DataFile | None
    rule: Rule | None = None
    halves: tuple[CpuPartition, CpuPartition] | None = None
    stop_at_host_problems: bool = False


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
        spec=experiment_spec(experiment),
        experiment_text=experiment.text,
        millrace_command=command,
    )


def experiment_spec(experiment: Experiment) -> RunSpec:
    """Return what a run of the experiment stores of it, as it is read back from the store."""
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
        "observers": experiment.observers,
        "design": design_of(experiment).to_json(),
        **experiment.campaign.to_json(),
    }
    return RunSpec.model_validate(json.loads(json.dumps(spec, default=dict)))


def design_of(experiment: Experiment) -> Design:
    """Return how many blocks a run of the experiment has."""
    return Design(
        kind="sequential" if experiment.sequential else "fixed",
        blocks=experiment.blocks,
        max_time_s=experiment.max_time_s,
        side_by_side=experiment.side_by_side,
    )


def begin(store: Store, run: RunRecord, plan: Plan, extension: Extension | None = None) -> None:
    """Write the run, its treatments and the trials of the plan; those that are there stay."""
    store.begin_run(
        run,
        [_treatment_record(position, each) for position, each in enumerate(plan.treatments)],
        [_trial_record(run, trial) for trial in plan.trials],
        extension=extension,
    )


def record_failure(store: Store, run: RunRecord, plan: Plan, step: str, reason: str) -> None:
    """Write the trials of a plan, and that they failed before they could be begun."""
    begin(store, run, plan)
    owner = ownership.this_process(run.host.id)
    failed = AttemptResult("failed", failed_step=step, reason=reason)
    for trial in plan.trials:
        name = stored_trial_id(run, trial)
        attempt = store.claim(
            name, owner, utc_now(), is_alive=ownership.is_alive, retry_failed=True
        )
        if attempt is not None:
            store.finish(attempt, failed, utc_now())


def _treatment_record(position: int, treatment: Treatment) -> TreatmentRecord:
    return TreatmentRecord(treatment.id, position, dict(treatment.levels), dict(treatment.resolved))


def _trial_record(run: RunRecord, trial: PlannedTrial) -> TrialRecord:
    return TrialRecord(
        stored_trial_id(run, trial), trial.treatment.id, trial.block, trial.position, trial.purpose
    )


def stored_trial_id(run: RunRecord, trial: PlannedTrial) -> str:
    """The trial's id in the store: a plan's ids are the same in every run of it."""
    return f"{run.id}/{trial.id}"


def waiting_trials(stored: StoredRun, plan: Plan, *, retry_failed: bool) -> set[str]:
    """The ids of the plan's trials that have no result yet, or only a failed one to be retried."""
    done = {
        trial
        for trial, attempt in stored.last_attempts().items()
        if attempt.outcome == "finished" or not retry_failed
    }
    return {trial.id for trial in plan.trials if stored_trial_id(stored.run, trial) not in done}


def carry_out(
    store: Store, run: RunRecord, given: RunInput, watch: Watcher, *, retry_failed: bool = False
) -> None:
    """Carry out every trial of the plan that has no end yet; events and errors are those of
    ``carry_out_trials``, and the events go to ``watch`` and into the run's event file."""
    with announcing(store, run, watch) as announce:
        trials = given.plan.trials
        carry_out_trials(store, run, given, trials, announce, retry_failed=retry_failed)


@contextlib.contextmanager
def announcing(store: Store, run: RunRecord, watch: Watcher) -> Iterator[Watcher]:
    """Events go to ``watch`` and into the run's event file."""
    with EventLog(store.events_path(run.id)) as log:

        def announce(event: Event) -> None:
            # A line about progress that cannot be written must not fail what it is about.
            with contextlib.suppress(HostError):
                log.append(event)
            watch(event)

        yield announce


def carry_out_trials(
    store: Store,
    run: RunRecord,
    given: RunInput,
    trials: Sequence[PlannedTrial],
    announce: Watcher,
    *,
    retry_failed: bool = False,
) -> None:
    """Carry out those of ``trials`` that have no end yet; they are rows in the store.

    ``announce`` gets the events of model.events. Raises Interrupted, or the HostError at which
    ``given`` wants to stop, after the open attempts were recorded as interrupted.
    """
    owner = ownership.this_process(run.host.id)
    for at_once in _at_once(trials, given.plan.experiment.compare.factor):
        claimed = []
        for trial in at_once:
            name = stored_trial_id(run, trial)
            attempt = store.claim(
                name, owner, utc_now(), is_alive=ownership.is_alive, retry_failed=retry_failed
            )
            if attempt is not None:
                claimed.append(Claimed(attempt, trial, _trial_input(name, trial, given)))
        if claimed:
            _attempt(store, claimed, announce, stops=given.stop_at_host_problems)


def _at_once(trials: Sequence[PlannedTrial], factor: str) -> Iterator[tuple[PlannedTrial, ...]]:
    """The trials that are measured at the same time: single ones, and pairs."""

    def key(trial: PlannedTrial) -> object:
        return trial.id if trial.side is None else (trial.block, held(trial.treatment, factor))

    for _, together in itertools.groupby(trials, key):
        yield tuple(together)


def _trial_input(name: str, trial: PlannedTrial, given: RunInput) -> TrialSpec:
    treatment = given.treatments[trial.treatment.id]
    work = treatment.work
    half = None
    if trial.side is not None:
        assert given.halves is not None  # those who prepare such a run see to it
        half = given.halves[trial.side]
    return TrialSpec(
        name=name,
        server=treatment.server,
        options=treatment.options,
        work=work,
        expected=given.expected,
        data_file=given.data_file if work.reads_a_file else None,
        control=_control(given.rule, work, half),
        observers=_observers(given.plan, trial),
        slowdown=treatment.slowdown,
        half=half,
        # Sizes on disk hardly differ between blocks, and nobody reads the data again.
        stops_cleanly=trial.block == 0,
    )


def _observers(plan: Plan, trial: PlannedTrial) -> tuple[str, ...]:
    observers = plan.experiment.observers
    return (*observers, PROFILE) if trial.purpose == "profile" else observers


def _control(
    rule: Rule | None, work: ResolvedWorkload, half: CpuPartition | None
) -> Control | None:
    if rule is None or work.connections is None:
        return None
    of_half = rule if half is None else replace(rule, cpus=half.cpus)
    return of_half.control(work.connections)


@dataclass(frozen=True)
class Claimed:
    """A trial that this process carries out now, and the id of its attempt."""

    attempt: int
    trial: PlannedTrial
    given: TrialSpec

    def about(self) -> dict[str, Any]:
        """What its events say of it."""
        trial = self.trial
        return {
            "trial": trial.id,
            "treatment": trial.treatment.label,
            "treatment_id": trial.treatment.id,
            "block": trial.block,
            "position": trial.position,
            "purpose": trial.purpose,
        }


def _attempt(store: Store, claimed: Sequence[Claimed], announce: Watcher, *, stops: bool) -> None:
    for each in claimed:
        announce(TrialBegan(**each.about()))
    try:
        results = _results(claimed, announce)
        for each, result in zip(claimed, results, strict=True):
            if stops and isinstance(result, TransientFailure):
                raise HostError(
                    f"{each.trial.treatment.label} could not be measured: failed at "
                    f"{result.failed_step}: {result.reason}"
                )
    except BaseException as cause:
        reason = str(cause) if isinstance(cause, MillraceError) else f"millrace stopped: {cause!r}"
        interrupted = AttemptResult("interrupted", reason=reason)
        with signals_held(), contextlib.suppress(MillraceError):
            store.finish_together([(each.attempt, interrupted) for each in claimed], utc_now())
        raise
    _keep(store, [(each.attempt, of) for each, of in zip(claimed, results, strict=True)], announce)
    for each, result in zip(claimed, results, strict=True):
        announce(
            TrialEnded(
                **each.about(),
                outcome=result.outcome,
                failed_step=result.failed_step,
                reason=result.reason,
            )
        )


def _results(claimed: Sequence[Claimed], announce: Watcher) -> Sequence[AttemptResult]:
    if claimed[0].trial.side is None:
        (only,) = claimed
        return (execute_trial(only.given, announce),)
    if len(claimed) == 1:
        reason = "the other trial of its pair has a result already"
        return (AttemptResult("failed", failed_step=BESIDE, reason=reason),)

    def of_trial(trial: PlannedTrial) -> Callable[[TrialEvent], None]:
        return lambda event: announce(replace(event, trial=trial.id))

    return execute_pair(
        [PairTrial(c.given, c.trial.treatment.label, of_trial(c.trial)) for c in claimed]
    )


def _keep(store: Store, ended: Sequence[tuple[int, AttemptResult]], announce: Watcher) -> None:
    """Write the results of trials; a full disk gets some seconds, since the trials' own files,
    often on the same disk, have just been removed, and then does without logs, histograms, what was
    observed and the course second by second. A signal meanwhile loses nothing that was measured."""
    ended = [(attempt, _readable(result)) for attempt, result in ended]
    with signals_held():
        for _ in range(_KEEP_TRIES):
            try:
                return store.finish_together(ended, utc_now())
            except HostError as problem:
                announce(ResultWaits(reason=str(problem)))
                time.sleep(_KEEP_PAUSE_S)
        bare = [
            (attempt, replace(result, artefacts=(), histograms=(), observations={}))
            for attempt, result in ended
        ]
        return store.finish_together(bare, utc_now())


def _readable(result: AttemptResult) -> AttemptResult:
    """Return the result, or a failed one in its place where a server answered what the store could
    not read back: one odd server must not make a run unreadable. Observations that could not be
    read back are left out."""
    for instance in result.instances:
        reason = database.refusal(to_plain(instance))
        if reason is not None:
            return AttemptResult(
                "failed",
                steps=result.steps,
                failed_step="record",
                reason=f"{instance.server.name}: its answers cannot be stored: {reason}",
            )
    return replace(result, observations=observations.readable(result.observations))
