"""Attempt trials: claim them for this process, execute them, and store their results.

The trials of a round stay together, so that none counts without the others. While a trial measures,
nothing is written to the store.

Servers are compared by the same statements. So the first counted start of a group chooses how many
there are, by their CPU time, and all others take as many. A treatment of which two starts failed is
not started again: it would fail again, after minutes, and too few starts would be left.
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
    """The settings of a counted start; it chooses its own ``extent`` where that is None.

    ``failed_before`` says why the treatment is not started again.
    """

    extent: Extent | None = None
    failed_before: str | None = None


@dataclass(frozen=True)
class Claimed:
    """A trial that this process executes now, and the id of its attempt.

    ``round_size`` is the number of trials of its round, 1 where it has none: where fewer are
    claimed, the others have ended. ``is_base`` is what candidates are compared with.
    ``count_settings`` is None where no instructions are counted.
    """

    attempt: int
    trial: PlannedTrial
    spec: TrialSpec
    round_size: int = 1
    is_base: bool = False
    count_settings: CountSettings | None = None

    def began(self) -> TrialBegan:
        """Return the event that the trial is measured from now on."""
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
        """Return the event that the trial has this result."""
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
    """Execute the trials of a plan that have no end yet; return whether there were any.

    They are rows in the store. With ``stop_at_host_errors`` a transient failure raises HostError
    instead of being a result.
    """
    compare, ran = plan.experiment.compare, False
    last = store.load_run(run.id).last_attempts() if retry_failed else {}
    finished = {name for name, attempt in last.items() if attempt.outcome == "finished"}
    for round_trials in measured_together(plan.trials, plan.experiment.compared_factors):
        # A server that failed alone in its round has no others left to take turns with.
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
    """Return the settings of a counted trial."""
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
    """Remove the kept data directories of finished trials, where millrace ended before it did.

    A failed trial keeps its own, because ``retry_failed`` may resume it. Call this where no other
    millrace measures. What cannot be removed is announced, and tried again next time.
    """
    try:
        kept = {each.trial: each for each in kept_data.all_kept()}
        for trial in sorted(store.finished_trials(kept)):
            kept[trial].remove()
    except (HostError, UnusablePlace) as problem:
        on_event(Notice(f"the data of a finished trial is not removed: {problem}"))


def record_failure(store: Store, run: RunRecord, plan: Plan, failed: AttemptResult) -> None:
    """Record that the trials of a plan failed before they started."""
    for trial in plan.trials:
        attempt = claim(store, run, trial, retry_failed=True)
        if attempt is not None:
            store.finish(attempt, failed, utc_now())


def claim(store: Store, run: RunRecord, trial: PlannedTrial, *, retry_failed: bool) -> int | None:
    """Claim a trial and return the id of its attempt; None where it has ended already."""
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
    """Measure a trial, or those of a round together, and return their results."""
    first_claimed, first = claimed[0], claimed[0].trial
    if first_claimed.count_settings is not None:
        return (_count(first_claimed, first_claimed.count_settings, emit),)
    trials = [RoundTrial(c.spec, c.trial.treatment.label, _listener(c, emit)) for c in claimed]
    if first.slot is None:
        (only,) = trials
        return (execute_trial(only.spec, only.emit),)
    if len(claimed) != first_claimed.round_size:
        reason = "others that are measured together with it have a result already"
        left_out = AttemptResult("failed", failed_step=ROUND_FAILED, reason=reason)
        return (left_out,) * len(claimed)
    base = next((number for number, each in enumerate(claimed) if each.is_base), 0)
    return execute_round(trials, base, _readable)


def _count(claimed: Claimed, settings: CountSettings, emit: OnEvent) -> AttemptResult:
    if settings.failed_before is not None:
        return AttemptResult("failed", failed_step="prepare", reason=settings.failed_before)
    return count_trial(claimed.spec, settings.extent, _listener(claimed, emit))


def _listener(claimed: Claimed, emit: OnEvent) -> Callable[[TrialEvent], None]:
    """Return the listener of a trial, which does not know its own id in the plan."""
    return lambda event: emit(replace(event, trial=claimed.trial.id))


def _store_results(store: Store, ended: Sequence[tuple[int, AttemptResult]], emit: OnEvent) -> None:
    """Write the results of trials, which a signal does not interrupt.

    A full disk gets some seconds: the trials' own files have just been removed, but for the data of
    a trial in loops, which it resumes with where its result is not stored. After that, results are
    written without logs, histograms, observations and the series of seconds.
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
    """Return the result without what could not be read back; failed for a server's own answers."""
    for instance in result.instances:
        reason = database.refusal(to_plain(instance))
        if reason is not None:
            said = f"{instance.server.name}: its answers cannot be stored: {reason}"
            return _unreadable(result, "record", said)
    for measured in result.measurements:
        if not is_measurable(measured.value):
            said = f"{measured.name} of the {measured.role} is not a number that can be stored"
            return _unreadable(result, "measure", said)
    readable = {role: observations.readable(of) for role, of in result.observations.items()}
    return replace(result, observations=readable)


def _unreadable(result: AttemptResult, step: str, reason: str) -> AttemptResult:
    return AttemptResult("failed", steps=result.steps, failed_step=step, reason=reason)
