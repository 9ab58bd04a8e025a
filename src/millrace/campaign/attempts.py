"""Attempt trials: claim them for this process, execute them, and store their results.

The trials of a round are executed together, and their results are stored together. Nothing is
written to the store while a trial measures.

Instruction counts are compared over the same number of statements. The first counted start of a
group chooses this number from the statements' CPU time; later starts of the group use the same
number. After two failed starts a treatment is not started again: it would probably fail again,
after minutes, and too few starts would be left for a result.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.campaign.inputs import RunInput, trial_spec
from millrace.campaign.run_records import is_alive, stored_trial_id, this_process
from millrace.errors import HostError, MillraceError, UnusablePlace
from millrace.experiment.groups import measured_together
from millrace.experiment.model import Compare, Plan, PlannedTrial
from millrace.levels import Level, without_clients
from millrace.model.events import Notice, OnEvent, ResultWaits, TrialBegan, TrialEnded, TrialEvent
from millrace.model.instruction_counts import MOST_FAILED
from millrace.quantities import utc_now
from millrace.servers.instances.signals import signals_held
from millrace.servers.snapshots import kept_data
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store import database, observations
from millrace.store.checked import is_measurable, to_plain
from millrace.store.records import ROUND_FAILED, AttemptResult, RunRecord
from millrace.store.store import Store
from millrace.trial.counting import Extent, count_trial, extent_of
from millrace.trial.execute import execute_trial
from millrace.trial.round import RoundTrial, execute_round
from millrace.trial.spec import TrialSpec

_STORE_TRIES = 10
_STORE_PAUSE_S = 3.0


@dataclass(frozen=True)
class CountSettings:
    """The settings of a counted start.

    ``extent`` is the number of statements; if None, the start chooses the number itself.
    ``failed_before`` is the reason why the treatment is not started again, None if it is started.
    """

    extent: Extent | None = None
    failed_before: str | None = None


@dataclass(frozen=True)
class Claimed:
    """A trial that this process executes now, and the id of its attempt.

    ``round_size`` is the number of trials of its round, 1 for a trial without a round. If fewer
    trials of a round are claimed, the others already have a result. ``is_base`` is true for a trial
    of the base. ``count_settings`` is None if no instructions are counted.
    """

    attempt: int
    trial: PlannedTrial
    spec: TrialSpec
    round_size: int = 1
    is_base: bool = False
    count_settings: CountSettings | None = None

    def began(self) -> TrialBegan:
        """Return the event for the start of the trial."""
        trial = self.trial
        return TrialBegan(
            trial=trial.id,
            treatment=trial.treatment.label,
            treatment_id=trial.treatment.id,
            block=trial.block,
            position=trial.position,
            purpose=trial.purpose,
        )

    def ended(self, result: AttemptResult) -> TrialEnded:
        """Return the event for the end of the trial, with its result."""
        of_trial = vars(self.began()) | {"event": "end"}
        outcome, step, reason = result.outcome, result.failed_step, result.reason
        return TrialEnded(**of_trial, outcome=outcome, failed_step=step, reason=reason)


def execute_trials(
    store: Store,
    run: RunRecord,
    plan: Plan,
    inputs: RunInput,
    emit: OnEvent,
    *,
    retry_failed: bool,
    stop_at_host_errors: bool,
) -> bool:
    """Execute the trials of a plan that have no result yet; return whether there were any.

    The store already has a row for each trial. With ``stop_at_host_errors``, a transient failure
    raises HostError and is not stored as a result.
    """
    compare, ran = plan.experiment.compare, False
    last = store.load_run(run.id).last_attempts() if retry_failed else {}
    finished = {name for name, attempt in last.items() if attempt.outcome == "finished"}
    for round_trials in measured_together(plan.trials, plan.experiment.compared_factors):
        # A round is retried only if all its trials failed: a retried trial needs the others.
        retry_round = retry_failed and finished.isdisjoint(
            stored_trial_id(run, trial) for trial in round_trials
        )
        claimed = []
        for trial in round_trials:
            attempt = claim(store, run, trial, retry_failed=retry_round)
            if attempt is not None:
                spec = trial_spec(stored_trial_id(run, trial), trial, plan, inputs)
                has_base = trial.treatment.levels[compare.factor] == compare.base
                counts = trial.purpose == "count"
                settings = _count_settings(store, run, trial, compare) if counts else None
                size, is_base = len(round_trials), has_base and trial.purpose != "aa"
                claimed.append(Claimed(attempt, trial, spec, size, is_base, settings))
        if claimed:
            _attempt(store, claimed, emit, stop_at_host_errors=stop_at_host_errors)
            ran = True
    return ran


def _count_settings(
    store: Store, run: RunRecord, trial: PlannedTrial, compare: Compare
) -> CountSettings:
    """Return the settings of a counted trial, from the counted trials that ended before it."""
    stored = store.load_run(run.id, observations_too=True)
    last = stored.last_attempts()
    levels = {each.id: each.levels for each in stored.treatments}
    group = _fixed(trial.treatment.levels, compare.factor)
    extent = None
    failures: list[str | None] = []
    for other in stored.trials:
        attempt = last.get(other.id)
        if other.purpose != "count" or attempt is None:
            continue
        counts = attempt.observations.instructions
        if counts is not None and _fixed(levels[other.treatment_id], compare.factor) == group:
            extent = extent_of(counts.transactions)
        is_earlier = other.treatment_id == trial.treatment.id and other.block < trial.block
        if is_earlier and attempt.outcome == "failed":
            failures.append(attempt.reason)
    given_up = len(failures) > MOST_FAILED
    return CountSettings(extent, f"earlier starts failed: {failures[0]}" if given_up else None)


def _fixed(levels: Mapping[str, Level], factor: str) -> dict[str, Level]:
    return {name: level for name, level in without_clients(levels).items() if name != factor}


def remove_leftovers(store: Store, on_event: OnEvent) -> None:
    """Remove data directories of finished trials that an earlier process left behind.

    A failed trial keeps its data directory, because ``retry_failed`` may resume the trial. Call
    this only while no other millrace process measures. If a directory cannot be removed, a notice
    is emitted, and the next run tries again.
    """
    try:
        kept = {each.trial: each for each in kept_data.all_kept()}
        for trial in sorted(store.finished_trials(kept)):
            kept[trial].remove()
    except (HostError, UnusablePlace) as problem:
        on_event(Notice(f"cannot remove the data of a finished trial: {problem}"))


def record_failure(store: Store, run: RunRecord, plan: Plan, failed: AttemptResult) -> None:
    """Record that the trials of a plan failed before they started."""
    for trial in plan.trials:
        attempt = claim(store, run, trial, retry_failed=True)
        if attempt is not None:
            store.finish(attempt, failed, utc_now())


def claim(store: Store, run: RunRecord, trial: PlannedTrial, *, retry_failed: bool) -> int | None:
    """Claim a trial and return the id of its attempt; None if the trial already has a result."""
    return store.claim(
        stored_trial_id(run, trial),
        this_process(run.host.id),
        utc_now(),
        is_alive=is_alive,
        retry_failed=retry_failed,
    )


def _attempt(
    store: Store, claimed: Sequence[Claimed], emit: OnEvent, *, stop_at_host_errors: bool
) -> None:
    for each in claimed:
        emit(each.began())
    try:
        results = list(zip(claimed, execute_claimed(claimed, emit), strict=True))
        for each, result in results:
            if stop_at_host_errors and result.is_transient:
                raise HostError(
                    f"{each.trial.treatment.label} could not be measured: failed at "
                    f"{result.failed_step}: {result.reason}"
                )
    except BaseException as cause:
        reason = str(cause) if isinstance(cause, MillraceError) else f"millrace stopped: {cause!r}"
        interrupted = AttemptResult("interrupted", reason=reason)
        with signals_held(), contextlib.suppress(MillraceError):
            store.finish_attempts([(each.attempt, interrupted) for each in claimed], utc_now())
        raise
    _store_results(store, [(each.attempt, result) for each, result in results], emit)
    for each, result in results:
        emit(each.ended(result))
        if each.spec.loops > 1 and not result.is_transient:
            KeptData.of(each.spec.name).remove()


def execute_claimed(claimed: Sequence[Claimed], emit: OnEvent) -> Sequence[AttemptResult]:
    """Measure one trial, or all trials of a round together, and return the results in order."""
    first_claimed, first = claimed[0], claimed[0].trial
    if first_claimed.count_settings is not None:
        return (_count(first_claimed, first_claimed.count_settings, emit),)
    trials = [RoundTrial(c.spec, c.trial.treatment.label, _listener(c, emit)) for c in claimed]
    if first.slot is None:
        (only,) = trials
        return (execute_trial(only.spec, only.emit),)
    if len(claimed) != first_claimed.round_size:
        reason = "other trials of its round already have a result, so it cannot be measured alone"
        left_out = AttemptResult("failed", failed_step=ROUND_FAILED, reason=reason)
        return (left_out,) * len(claimed)
    base = next((number for number, each in enumerate(claimed) if each.is_base), 0)
    return execute_round(trials, base, _readable)


def _count(claimed: Claimed, settings: CountSettings, emit: OnEvent) -> AttemptResult:
    if settings.failed_before is not None:
        return AttemptResult("failed", failed_step="prepare", reason=settings.failed_before)
    return count_trial(claimed.spec, settings.extent, _listener(claimed, emit))


def _listener(claimed: Claimed, emit: OnEvent) -> Callable[[TrialEvent], None]:
    """Return a listener that adds the trial's id in the plan to each event of the trial."""
    return lambda event: emit(replace(event, trial=claimed.trial.id))


def _store_results(store: Store, ended: Sequence[tuple[int, AttemptResult]], emit: OnEvent) -> None:
    """Store the results of trials; signals wait until this is done.

    If the disk is full, try again for about half a minute: the files of the trials have just been
    removed. If storing still fails, store the results without logs, histograms and observations.
    The data of a trial in loops stays until its result is stored, so that the trial can resume.
    """
    ended = [(attempt, _readable(result)) for attempt, result in ended]
    with signals_held():
        for _ in range(_STORE_TRIES):
            try:
                return store.finish_attempts(ended, utc_now())
            except HostError as problem:
                emit(ResultWaits(reason=str(problem)))
                time.sleep(_STORE_PAUSE_S)
        bare = [
            (attempt, replace(result, artefacts=(), histograms=(), observations={}))
            for attempt, result in ended
        ]
        return store.finish_attempts(bare, utc_now())


def _readable(result: AttemptResult) -> AttemptResult:
    """Return the result without observations that could not be read back from the store.

    Return a failed result if the server's own facts or a measured value cannot be stored.
    """
    for instance in result.instances:
        reason = database.refusal(to_plain(instance))
        if reason is not None:
            said = f"{instance.server.name} reported values that cannot be stored: {reason}"
            return _unreadable(result, "record", said)
    for measured in result.measurements:
        if not is_measurable(measured.value):
            said = f"{measured.name} of the {measured.role} is not a number that can be stored"
            return _unreadable(result, "measure", said)
    readable = {role: observations.readable(of) for role, of in result.observations.items()}
    return replace(result, observations=readable)


def _unreadable(result: AttemptResult, step: str, reason: str) -> AttemptResult:
    return AttemptResult("failed", steps=result.steps, failed_step=step, reason=reason)
