"""Execute a run: the only loop over blocks and trials.

A policy chooses the next trials. The scheduler prepares them, writes them as rows into the store,
claims each trial for this process, executes it (or the two of a concurrent pair), stores the result
and emits events. It resumes an interrupted run: it ends open attempts, runs their trials again, and
never repeats a finished trial. While a trial measures, it writes only lines of the event file. It
stores the results of a pair together, so that neither counts without the other.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from millrace.campaign import ownership
from millrace.campaign.blocks import joined, would_be_late
from millrace.campaign.inputs import RunInput, trial_spec
from millrace.campaign.run_records import begin_run, stored_trial_id, waiting_trials
from millrace.errors import (
    HostError,
    Interrupted,
    MillraceError,
    PermanentHostError,
    ValidationError,
)
from millrace.experiment.concurrent_pairs import held
from millrace.experiment.model import Plan, PlannedTrial
from millrace.model.events import (
    Announcement,
    Emitted,
    Event,
    OnEvent,
    ResultWaits,
    ScheduledTrial,
    TrialBegan,
    TrialEnded,
    TrialEvent,
    TrialsScheduled,
)
from millrace.model.run_spec import Extension
from millrace.servers.instances.signals import signals_held
from millrace.store import database, observations
from millrace.store.checked import to_plain
from millrace.store.events import EventLog
from millrace.store.records import BESIDE, AttemptResult, RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.concurrent_pair import PairTrial, execute_pair
from millrace.trial.execute import execute_trial
from millrace.trial.spec import TrialSpec
from millrace.trial.transient import is_transient
from millrace.utc import utc_now

TIME_LIMIT = "time"
"""The reason of an end: another block would exceed the time limit."""

_STORE_TRIES = 10
_STORE_PAUSE_S = 3.0


@dataclass(frozen=True)
class Block:
    """The next trials of a run: often one block, or all blocks of a fixed run.

    ``plan`` contains these trials and the treatments to prepare; ``blocks`` is the number of blocks
    that the run has with them. ``is_new`` is False for a block that was started before.
    ``unprepared_step`` is the step at which the trials fail if their server cannot be prepared;
    None makes that failure end the command.
    """

    plan: Plan
    blocks: int
    is_new: bool = True
    retry_failed: bool = False
    unprepared_step: str | None = None
    events: tuple[Emitted, ...] = ()


@dataclass(frozen=True)
class End:
    """The end of a run, with its ``reason``.

    The scheduler raises ``error`` after the events.
    """

    reason: str
    events: tuple[Emitted, ...] = ()
    error: MillraceError | None = None


class Policy(Protocol):
    """The rule that decides what a run measures next.

    It depends on the stored run alone, so that the run can resume.
    """

    def next_block(self, stored: StoredRun | None) -> Block | End:
        """Return the next trials; ``stored`` is the run so far, None before its first trial."""


Prepare = Callable[[Plan, StoredRun | None], RunInput]
"""Return the input of a plan's trials from the run so far.

Raise MillraceError where the plan is refused.
"""


@dataclass(frozen=True)
class Rules:
    """The rules by which a run is executed.

    The scheduler starts no block that would exceed ``limit_s`` of total trial time. With
    ``stop_at_host_errors`` a trial that fails with a transient host error has no result, and a
    HostError ends the command. ``withdraw_unbegun`` first deletes blocks without any attempt,
    because the policy decides them again. ``with_observations`` also loads the collectors'
    observations. ``extension`` is recorded with the first new block.
    """

    limit_s: float | None = None
    stop_at_host_errors: bool = False
    withdraw_unbegun: bool = False
    with_observations: bool = False
    extension: Extension | None = None


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Executed:
    """A run as far as it was executed, and the reason of its end."""

    stored: StoredRun | None
    reason: str


def execute(
    store: Store,
    run: RunRecord,
    policy: Policy,
    prepare: Prepare,
    on_event: OnEvent,
    *,
    is_new: bool,
    rules: Rules = DEFAULT_RULES,
) -> Executed:
    """Execute blocks until the policy ends the run or the time limit is reached.

    Events go to ``on_event``; those of the run also into its event file. Raise Interrupted, or the
    HostError of ``stop_at_host_errors``, after open attempts were recorded as interrupted.
    """
    stored = None
    if not is_new:
        stored = store.load_run(run.id, observations_too=rules.with_observations)
    extension = rules.extension
    withdraw = rules.withdraw_unbegun and not is_new
    emit = _Emitter(on_event)
    with contextlib.ExitStack() as stack:
        while True:
            decision = policy.next_block(stored)
            for event in decision.events:
                emit(event)
            if isinstance(decision, End):
                if decision.error is not None:
                    raise decision.error
                return Executed(stored, decision.reason)
            if decision.is_new and would_be_late(stored, rules.limit_s):
                return Executed(stored, TIME_LIMIT)
            inputs = _prepared(prepare, decision, stored)
            if withdraw:
                store.withdraw_unbegun(run.id)
                withdraw = False
            plan, grown = decision.plan, replace(run, blocks=decision.blocks)
            begin_run(store, grown, plan, extension if decision.is_new else None)
            extension = None if decision.is_new else extension
            emit.open_log(stack, store.events_path(run.id))
            if isinstance(inputs, MillraceError):
                _record_failure(store, run, decision, str(inputs))
            else:
                emit(_scheduled(stored, decision, inputs))
                _execute_block(store, run, decision, inputs, emit, stops=rules.stop_at_host_errors)
            first = min(trial.block for trial in plan.trials)
            later = store.load_run(
                run.id, observations_too=rules.with_observations, from_block=first
            )
            stored = joined(stored, later, from_block=first)


class _Emitter:
    """An emitter of events to ``on_event`` and, once the run exists, into its event file."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._log: EventLog | None = None
        self._early: list[Event] = []

    def __call__(self, event: Emitted) -> None:
        if not isinstance(event, Announcement):
            self._record(event)
        self._on_event(event)

    def open_log(self, stack: contextlib.ExitStack, path: Path) -> None:
        """Record events in the file ``path`` from now on, after those that came before."""
        if self._log is None:
            self._log = stack.enter_context(EventLog(path))
            for event in self._early:
                self._record(event)

    def _record(self, event: Event) -> None:
        if self._log is None:
            self._early.append(event)
            return
        # A progress line that cannot be written must not fail the run.
        with contextlib.suppress(HostError):
            self._log.append(event)


def _prepared(prepare: Prepare, block: Block, stored: StoredRun | None) -> RunInput | MillraceError:
    """Return a block's input, or the error that makes its trials fail.

    Try a second time where a download may have been damaged. Raise errors that end the command.
    """
    for is_last in (False, True):
        try:
            return prepare(block.plan, stored)
        except (Interrupted, ValidationError):
            raise
        except MillraceError as problem:
            if block.unprepared_step is None or is_transient(problem):
                raise
            if is_last or not isinstance(problem, PermanentHostError):
                return problem
    raise AssertionError("the last try returns or raises")


def _record_failure(store: Store, run: RunRecord, block: Block, reason: str) -> None:
    """Record that the trials of a block failed before they started."""
    owner = ownership.this_process(run.host.id)
    failed = AttemptResult("failed", failed_step=block.unprepared_step, reason=reason)
    for trial in block.plan.trials:
        attempt = store.claim(
            stored_trial_id(run, trial),
            owner,
            utc_now(),
            is_alive=ownership.is_alive,
            retry_failed=True,
        )
        if attempt is not None:
            store.finish(attempt, failed, utc_now())


def _scheduled(stored: StoredRun | None, block: Block, inputs: RunInput) -> TrialsScheduled:
    trials = block.plan.trials
    waiting = {trial.id for trial in trials}
    if stored is not None:
        waiting = waiting_trials(stored, block.plan, retry_failed=block.retry_failed)
    return TrialsScheduled(
        trials=tuple(
            ScheduledTrial(id=t.id, treatment_id=t.treatment.id, time_weight=t.hosts)
            for t in trials
        ),
        waiting=tuple(trial.id for trial in trials if trial.id in waiting),
        estimate_s=inputs.estimate_s,
        rows=block.plan.experiment.parameters.get("rows"),
    )


@dataclass(frozen=True)
class Claimed:
    """A trial that this process executes now, and the id of its attempt."""

    attempt: int
    trial: PlannedTrial
    spec: TrialSpec

    def fields(self) -> dict[str, Any]:
        """Return the fields of the trial's events."""
        trial = self.trial
        return {
            "trial": trial.id,
            "treatment": trial.treatment.label,
            "treatment_id": trial.treatment.id,
            "block": trial.block,
            "position": trial.position,
            "purpose": trial.purpose,
        }


def _execute_block(
    store: Store,
    run: RunRecord,
    block: Block,
    inputs: RunInput,
    emit: OnEvent,
    *,
    stops: bool,
) -> None:
    """Execute the trials of a block that have no end yet; they are rows in the store."""
    owner, plan = ownership.this_process(run.host.id), block.plan
    for at_once in _at_once(plan.trials, plan.experiment.compare.factor):
        claimed = []
        for trial in at_once:
            name = stored_trial_id(run, trial)
            attempt = store.claim(
                name,
                owner,
                utc_now(),
                is_alive=ownership.is_alive,
                retry_failed=block.retry_failed,
            )
            if attempt is not None:
                claimed.append(Claimed(attempt, trial, trial_spec(name, trial, plan, inputs)))
        if claimed:
            _attempt(store, claimed, emit, stops=stops)


def _at_once(trials: Sequence[PlannedTrial], factor: str) -> Iterator[tuple[PlannedTrial, ...]]:
    """Yield the trials that are measured at the same time: single ones, and pairs."""

    def key(trial: PlannedTrial) -> object:
        return trial.id if trial.side is None else (trial.block, held(trial.treatment, factor))

    for _, together in itertools.groupby(trials, key):
        yield tuple(together)


def _attempt(store: Store, claimed: Sequence[Claimed], emit: OnEvent, *, stops: bool) -> None:
    for each in claimed:
        emit(TrialBegan(**each.fields()))
    try:
        results = execute_claimed(claimed, emit)
        for each, result in zip(claimed, results, strict=True):
            if stops and result.is_transient:
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
    _store(store, [(each.attempt, of) for each, of in zip(claimed, results, strict=True)], emit)
    for each, result in zip(claimed, results, strict=True):
        emit(
            TrialEnded(
                **each.fields(),
                outcome=result.outcome,
                failed_step=result.failed_step,
                reason=result.reason,
            )
        )


def execute_claimed(claimed: Sequence[Claimed], emit: OnEvent) -> Sequence[AttemptResult]:
    """Measure a trial, or the two of a pair at the same time, and return their results."""
    if claimed[0].trial.side is None:
        (only,) = claimed
        return (execute_trial(only.spec, _trial_listener(only, emit)),)
    if len(claimed) == 1:
        reason = "the other trial of its pair has a result already"
        return (AttemptResult("failed", failed_step=BESIDE, reason=reason),)
    return execute_pair(
        [PairTrial(c.spec, c.trial.treatment.label, _trial_listener(c, emit)) for c in claimed]
    )


def _trial_listener(claimed: Claimed, emit: OnEvent) -> Callable[[TrialEvent], None]:
    """Return the listener of a trial, which does not know its own id in the plan."""
    return lambda event: emit(replace(event, trial=claimed.trial.id))


def _store(store: Store, ended: Sequence[tuple[int, AttemptResult]], emit: OnEvent) -> None:
    """Write the results of trials.

    A full disk gets some seconds, since the trials' own files, often on the same disk, have just
    been removed. After that, the results are written without logs, histograms, observations and the
    series of seconds. A signal during the write loses no measurement.
    """
    ended = [(attempt, _readable(result)) for attempt, result in ended]
    with signals_held():
        for _ in range(_STORE_TRIES):
            try:
                return store.finish_together(ended, utc_now())
            except HostError as problem:
                emit(ResultWaits(reason=str(problem)))
                time.sleep(_STORE_PAUSE_S)
        bare = [
            (attempt, replace(result, artefacts=(), histograms=(), observations={}))
            for attempt, result in ended
        ]
        return store.finish_together(bare, utc_now())


def _readable(result: AttemptResult) -> AttemptResult:
    """Return the result, or a failed one where the store could not read back a server's answer.

    One unusual server must not make a run unreadable. Observations that could not be read back are
    left out.
    """
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
