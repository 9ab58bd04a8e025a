"""Execute a run: the only loop over blocks and trials.

A policy chooses the next trials. The scheduler prepares them, writes them as rows into the store,
attempts each one (see ``attempts``), and emits events. It resumes an interrupted run: it ends open
attempts, runs their trials again, and never repeats a finished trial.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from millrace.campaign.attempts import execute_trials, record_failure
from millrace.campaign.blocks import joined, would_be_late
from millrace.campaign.inputs import RunInput
from millrace.campaign.run_records import begin_run, waiting_trials
from millrace.errors import (
    HostError,
    Interrupted,
    MillraceError,
    PermanentHostError,
    ValidationError,
)
from millrace.experiment.model import Plan
from millrace.model.events import (
    Announcement,
    Emitted,
    Event,
    OnEvent,
    ScheduledTrial,
    TrialsScheduled,
)
from millrace.model.run_spec import Extension
from millrace.store.events import EventLog
from millrace.store.records import AttemptResult, RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.transient import is_transient

TIME_LIMIT = "time"
"""The reason of an end: another block would exceed the time limit."""


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
    HostError ends the command. ``delete_unstarted_blocks`` first deletes blocks without any
    attempt, because the policy decides them again. ``with_observations`` also loads the collectors'
    observations. ``extension`` is recorded with the first new block.
    """

    limit_s: float | None = None
    stop_at_host_errors: bool = False
    delete_unstarted_blocks: bool = False
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
    withdraw = rules.delete_unstarted_blocks and not is_new
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
                store.delete_unstarted_blocks(run.id)
                withdraw = False
            plan, grown = decision.plan, replace(run, blocks=decision.blocks)
            begin_run(store, grown, plan, extension if decision.is_new else None)
            extension = None if decision.is_new else extension
            emit.open_log(stack, store.events_path(run.id))
            if isinstance(inputs, MillraceError):
                step, reason = decision.unprepared_step, str(inputs)
                failed = AttemptResult("failed", failed_step=step, reason=reason)
                record_failure(store, run, plan, failed)
            else:
                emit(_scheduled(stored, decision, inputs))
                execute_trials(
                    store,
                    run,
                    plan,
                    inputs,
                    emit,
                    retry_failed=decision.retry_failed,
                    stops=rules.stop_at_host_errors,
                )
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
