"""Execute a run: the only loop over blocks and trials.

A policy chooses the next trials. They are prepared, written into the store and attempted. When an
interrupted run resumes, trials without a result run again; finished trials never do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

from millrace import errors
from millrace.campaign import blocks
from millrace.campaign.attempts import execute_trials, record_failure, remove_leftovers
from millrace.campaign.inputs import RunInput
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import begin_run, waiting_trials
from millrace.errors import HostError, MillraceError
from millrace.experiment.model import Plan
from millrace.model import events
from millrace.model.events import Emitted, Event, OnEvent
from millrace.model.run_spec import Extension
from millrace.model.trials import is_in_measured_block, kind_of_block
from millrace.store.events import EventLog
from millrace.store.records import AttemptResult, RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.execute import is_transient

TIME_LIMIT = "time"
"""The reason for an end: another block would exceed the time limit."""


@dataclass(frozen=True)
class Batch:
    """The trials that a run attempts next, as a plan; the run then has ``total_blocks``.

    Trials that already have a result are skipped (``Store.claim``); failed trials are skipped
    unless ``retry_failed``. A batch that ``resumes`` only completes started blocks: the time limit
    does not apply, and ``Rules.extension`` is not recorded. If a server cannot be prepared, its
    trials fail at ``preparation_step``; if that is None, the command fails. ``events`` are emitted
    before the trials.
    """

    plan: Plan
    total_blocks: int
    resumes: bool = False
    retry_failed: bool = False
    preparation_step: str | None = None
    events: tuple[Emitted, ...] = ()


@dataclass(frozen=True)
class End:
    """The end of a run; the scheduler emits ``events``, then raises ``error``, if any."""

    reason: str
    events: tuple[Emitted, ...] = ()
    error: MillraceError | None = None


class Policy(Protocol):
    """A rule that chooses, from the stored run alone, the trials that a run measures next."""

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the next trials; ``stored`` is the run so far, None before its first trial."""


Prepare = Callable[[Plan, StoredRun | None], RunInput]
"""Return the input of a plan's trials, given the run so far; MillraceError if that fails."""


@dataclass(frozen=True)
class Rules:
    """The rules by which a run is executed.

    ``limit_s``: no batch starts that would exceed this total time of trials.
    ``stop_at_host_errors``: a transient error of the host is raised as HostError and not stored.
    ``delete_unstarted_blocks``: delete blocks without a started trial; the policy plans them again.
    ``with_observations``: load the observations of trials too.
    ``extension``: recorded together with the first new blocks.
    """

    limit_s: float | None = None
    stop_at_host_errors: bool = False
    delete_unstarted_blocks: bool = False
    with_observations: bool = False
    extension: Extension | None = None


DEFAULT_RULES = Rules()


def rules_of(selection: RunSelection) -> Rules:
    """Return the rules of an experiment's run, fixed or sequential."""
    is_sequential = selection.plan.experiment.sequential
    return Rules(
        delete_unstarted_blocks=is_sequential,
        with_observations=is_sequential,
        extension=selection.extension,
    )


@dataclass(frozen=True)
class Executed:
    """A run after its execution, and the reason why it ended."""

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
    """Execute batches until the policy ends the run or the time limit is reached.

    Events are passed to ``on_event`` and written to the run's event file; announcements are not
    written. Before an exception such as Interrupted or HostError is raised, open attempts are
    recorded as interrupted.
    """
    remove_leftovers(store, on_event)
    emit = _Emitter(on_event)
    with contextlib.ExitStack() as stack:
        execution = _Execution(store, run, rules, emit, stack, rules.extension)
        if not is_new:
            execution.load()
        while True:
            batch = policy.next_batch(execution.stored)
            for event in batch.events:
                emit(event)
            if isinstance(batch, End):
                if batch.error is not None:
                    raise batch.error
                return Executed(execution.stored, batch.reason)
            if not batch.resumes and blocks.would_be_late(execution.stored, rules.limit_s):
                return Executed(execution.stored, TIME_LIMIT)
            prepared = _input_or_error(prepare, batch, execution.stored)
            execution.begin(batch)
            execution.measure(batch, prepared)
            execution.load(from_block=min(trial.block for trial in batch.plan.trials))


@dataclass
class _Execution:
    """A run during its execution; ``stored`` is what the store has of it, None before a trial."""

    store: Store
    run: RunRecord
    rules: Rules
    emit: _Emitter
    stack: contextlib.ExitStack
    extension: Extension | None
    stored: StoredRun | None = None
    is_begun: bool = False

    def load(self, *, from_block: int = 0) -> None:
        """Read the run again from the store, from block ``from_block`` on."""
        later = self.store.load_run(
            self.run.id, observations_too=self.rules.with_observations, from_block=from_block
        )
        self.stored = blocks.joined(self.stored, later, from_block=from_block)

    def begin(self, batch: Batch) -> None:
        """Write the trials of a batch into the store."""
        if not self.is_begun and self.stored is not None and self.rules.delete_unstarted_blocks:
            self.store.delete_unstarted_blocks(self.run.id)
        self.is_begun = True
        grown = replace(self.run, blocks=batch.total_blocks)
        extension = None
        if not batch.resumes:
            extension, self.extension = self.extension, None
        begin_run(self.store, grown, batch.plan, extension)
        self.emit.open_log(self.stack, self.store.events_path(self.run.id))

    def measure(self, batch: Batch, prepared: RunInput | MillraceError) -> None:
        """Execute the trials of a batch; if ``prepared`` is an error, record all as failed."""
        if isinstance(prepared, MillraceError):
            step, reason = batch.preparation_step, str(prepared)
            failed = AttemptResult("failed", failed_step=step, reason=reason)
            record_failure(self.store, self.run, batch.plan, failed)
            return
        self.emit(_scheduled(self.stored, batch, prepared))
        # Profiled and counted trials have blocks of their own.
        blocks_of = groupby(batch.plan.trials, lambda t: (kind_of_block(t.purpose), t.block))
        plans = [replace(batch.plan, trials=tuple(trials)) for _, trials in blocks_of]
        for plan in plans:
            ran = execute_trials(
                self.store,
                self.run,
                plan,
                prepared,
                self.emit,
                retry_failed=batch.retry_failed,
                stop_at_host_errors=self.rules.stop_at_host_errors,
            )
            if ran and plan is not plans[-1]:
                self._emit_interim_ratios(plan, batch.total_blocks)

    def _emit_interim_ratios(self, plan: Plan, total: int) -> None:
        """Emit the ratios so far, after a block that is not the last of its batch."""
        first = plan.trials[0]
        if not is_in_measured_block(first.purpose):
            return
        self.load(from_block=first.block)
        assert self.stored is not None
        comparisons, ended = blocks.interim_status(self.stored), first.block + 1
        if ratios := blocks.ratios_of(comparisons):
            ahead = blocks.visible_at_end(comparisons, ended, total, looks="once")
            self.emit(events.BlockEnded(ended, total, ratios, ahead))


class _Emitter:
    """Pass events to ``on_event`` and write them to the run's event file, once it exists."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._log: EventLog | None = None
        self._early: list[Event] = []

    def __call__(self, event: Emitted) -> None:
        if not isinstance(event, events.Announcement):
            self._record(event)
        self._on_event(event)

    def open_log(self, stack: contextlib.ExitStack, path: Path) -> None:
        """Open the event file; write the earlier events first."""
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


def _input_or_error(
    prepare: Prepare, batch: Batch, stored: StoredRun | None, *, is_last_try: bool = False
) -> RunInput | MillraceError:
    """Return the input of a batch, or its trials' error; raise errors that end the command."""
    try:
        return prepare(batch.plan, stored)
    except (errors.Interrupted, errors.ValidationError):
        raise
    except MillraceError as error:
        if batch.preparation_step is None or is_transient(error):
            raise
        if is_last_try or not isinstance(error, errors.PermanentHostError):
            return error
    return _input_or_error(prepare, batch, stored, is_last_try=True)  # repeat a damaged download


def _scheduled(stored: StoredRun | None, batch: Batch, inputs: RunInput) -> events.TrialsScheduled:
    trials = batch.plan.trials
    waiting = {trial.id for trial in trials}
    if stored is not None:
        waiting = waiting_trials(stored, batch.plan, retry_failed=batch.retry_failed)
    rows = batch.plan.experiment.parameters.get("rows")
    return events.TrialsScheduled(
        trials=tuple(
            events.ScheduledTrial(
                id=t.id, treatment_id=t.treatment.id, time_weight=batch.plan.share_of_time(t)
            )
            for t in trials
        ),
        waiting=tuple(trial.id for trial in trials if trial.id in waiting),
        estimate_s=inputs.estimate_s,
        rows=None if rows is None else int(rows),
    )
