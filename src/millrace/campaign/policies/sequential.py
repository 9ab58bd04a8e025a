"""Carries a sequential run out: block by block, until each comparison is decided.

After each block the analysis of what is stored says which treatments still need one; these make up
the next block, in the order that the plan has for it. Nothing else decides, so that a run that was
interrupted goes on as it would have: what was begun of a block is ended first. Trials are rows in
the store before they run, those of a block when it begins. Profiled trials come after all blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import ComparisonStatus, Ending, RunStatus
from millrace.analysis.compare.stopping import trial_times
from millrace.campaign import scheduler as runner
from millrace.campaign.resume import Chosen, only_begun
from millrace.experiment.model import Plan, PlannedTrial
from millrace.model.events import ClosedComparison, RunAssessed
from millrace.stats import FIRST_LOOK
from millrace.store.records import StoredRun
from millrace.store.store import Store


@dataclass(frozen=True)
class Progress:
    """How far a run has come, and what comes next.

    ``begun`` are its trials, rows in the store, in their order; ``waiting`` those of them without a
    result. ``block`` is the next block, empty where there is none: ``ending`` says why. ``profile``
    are the profiled trials that are left for when the blocks are over. All of it takes ``about_s``,
    and at most ``at_most_s`` and ``at_most_trials``. ``status`` is None for a run that is new.
    """

    status: RunStatus | None
    begun: tuple[PlannedTrial, ...]
    waiting: tuple[PlannedTrial, ...]
    block: tuple[PlannedTrial, ...]
    profile: tuple[PlannedTrial, ...]
    ending: Ending | None
    about_s: float
    at_most_s: float
    at_most_trials: int

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to carry out."""
        return not (self.waiting or self.block or self.profile)


def progress(
    store: Store, chosen: Chosen, *, retry_failed: bool = False, unknown_s: float = 0.0
) -> Progress:
    """How far a run has come, by what is stored of it.

    With ``retry_failed``, trials that failed count as without a result. ``unknown_s`` is how long a
    trial takes as long as none has shown it.
    """
    if chosen.is_new:
        return _of_new_run(chosen.plan, unknown_s)
    # Verdicts look at observed plans too: a run stops by the one that its report gives.
    stored = store.load_run(chosen.run.id, observations_too=True)
    waiting = runner.waiting_trials(stored, chosen.plan, retry_failed=retry_failed)
    return _of_stored_run(chosen.plan, stored, waiting, unknown_s)


def carry_out(
    store: Store,
    chosen: Chosen,
    given: runner.RunInput,
    watch: runner.Watcher,
    *,
    retry_failed: bool = False,
    unknown_s: float = 0.0,
) -> None:
    """Carry out what a sequential run still needs; ``unknown_s`` as of ``progress``.

    ``watch`` and the run's event file get the events of ``runner.carry_out_trials`` and, at first
    and after each block, ``RunAssessed``.
    """
    run, extension = chosen.run, chosen.extension
    if not chosen.is_new:
        store.withdraw_unbegun(run.id)
    seen: list[ComparisonStatus] = []
    with runner.announcing(store, run, watch) as announce:

        def look(*, retry: bool = False) -> Progress:
            now = progress(store, chosen, retry_failed=retry, unknown_s=unknown_s)
            announce(_look(now, seen))
            seen[:] = () if now.status is None else now.status.comparisons
            return now

        def attempt(trials: Sequence[PlannedTrial], *, retry: bool = False) -> None:
            runner.carry_out_trials(store, run, given, trials, announce, retry_failed=retry)

        now = look(retry=retry_failed)
        if now.waiting:
            attempt(now.begun, retry=retry_failed)
            now = look()
        while now.block:
            run = replace(run, blocks=now.block[0].block + 1)
            runner.begin(store, run, replace(chosen.plan, trials=now.block), extension)
            chosen, extension = replace(chosen, is_new=False), None
            attempt(now.block)
            now = look()
        if now.profile:
            run = replace(run, blocks=0 if now.status is None else now.status.blocks)
            runner.begin(store, run, replace(chosen.plan, trials=now.profile))
            attempt(now.profile)


def _of_new_run(plan: Plan, unknown_s: float) -> Progress:
    blocks = [trial for trial in plan.trials if trial.purpose != "profile"]
    profile = tuple(trial for trial in plan.trials if trial.purpose == "profile")
    first = [trial for trial in blocks if trial.block < FIRST_LOOK]
    limit_s = plan.experiment.max_time_s
    times = dict.fromkeys((each.id for each in plan.treatments), unknown_s)
    at_most_s = _time_s(blocks, times)
    if limit_s is not None:
        at_most_s = min(at_most_s, limit_s)
    profile_s = _time_s(profile, times)
    return Progress(
        status=None,
        begun=(),
        waiting=(),
        block=tuple(trial for trial in blocks if trial.block == 0),
        profile=profile,
        ending=None,
        about_s=min(_time_s(first, times), at_most_s) + profile_s,
        at_most_s=at_most_s + profile_s,
        at_most_trials=len(plan.trials),
    )


def _of_stored_run(
    plan: Plan, stored: StoredRun, without_result: set[str], unknown_s: float
) -> Progress:
    stored = only_begun(stored)
    experiment, design = plan.experiment, runner.design_of(plan.experiment)
    # The next block depends on what is seen now, whatever the run was meant to be before.
    analysis = compare_run(
        stored,
        margin=experiment.margin,
        base=str(experiment.compare.base),
        looks="any",
        design=design,
    )
    status = analysis.status
    begun, profile = _begun(plan, stored)
    waiting = tuple(trial for trial in begun if trial.id in without_result)
    later = [] if status.ending is not None else _later(plan, status)
    expected = [t for t in later if t.block < status.blocks + status.needed[t.treatment.id]]
    times = trial_times(analysis, unknown_s=unknown_s)
    at_most_s = _time_s(later, times)
    if design.max_time_s is not None:
        at_most_s = min(at_most_s, max(design.max_time_s - analysis.spent_s, 0.0))
    for_certain_s = _time_s((*waiting, *profile), times)
    return Progress(
        status=status,
        begun=begun,
        waiting=waiting,
        block=_placed((t for t in later if t.block == status.blocks), len(stored.trials)),
        profile=_placed(profile, len(stored.trials)),
        ending=status.ending,
        about_s=for_certain_s + min(_time_s(expected, times), at_most_s),
        at_most_s=for_certain_s + at_most_s,
        at_most_trials=len(waiting) + len(later) + len(profile),
    )


def _begun(plan: Plan, stored: StoredRun) -> tuple[tuple[PlannedTrial, ...], list[PlannedTrial]]:
    """The trials that are rows in the store, in their order, and profiled ones that are none."""
    places = {trial.id: place for place, trial in enumerate(stored.trials)}
    planned = [(runner.stored_trial_id(stored.run, trial), trial) for trial in plan.trials]
    begun = [replace(t, position=places[name]) for name, t in planned if name in places]
    profile = [t for name, t in planned if name not in places and t.purpose == "profile"]
    return tuple(sorted(begun, key=lambda trial: trial.position)), profile


def _later(plan: Plan, status: RunStatus) -> list[PlannedTrial]:
    """What the plan has for the treatments that still need blocks, in blocks not begun yet."""
    return [
        trial
        for trial in plan.trials
        if trial.purpose != "profile"
        and trial.block >= status.blocks
        and trial.treatment.id in status.needed
    ]


def _placed(trials: Iterable[PlannedTrial], after: int) -> tuple[PlannedTrial, ...]:
    """The trials with the positions that come next in the order of the run."""
    return tuple(replace(trial, position=after + at) for at, trial in enumerate(trials))


def _time_s(trials: Iterable[PlannedTrial], times: Mapping[str, float]) -> float:
    return sum(times[trial.treatment.id] * trial.hosts for trial in trials)


def _look(now: Progress, seen: Sequence[ComparisonStatus]) -> RunAssessed:
    """The event of a look; ``seen`` is how comparisons stood at the last one."""
    comparisons = () if now.status is None else now.status.comparisons
    blocks = 0 if now.status is None else now.status.blocks
    in_the_last = any(trial.block == blocks - 1 for trial in now.waiting)
    known = {_key(each) for each in seen if each.state != "open"}
    return RunAssessed(
        blocks=blocks - in_the_last,
        closed=tuple(
            ClosedComparison(label=each.label, state=each.state, verdict=each.comparison.verdict)
            for each in comparisons
            if each.state != "open" and _key(each) not in known
        ),
        open=sum(each.state == "open" for each in comparisons),
        about_s=now.about_s,
        at_most_s=now.at_most_s,
        at_most_trials=now.at_most_trials,
    )


def _key(status: ComparisonStatus) -> tuple[str, str]:
    return status.comparison.base_id, status.comparison.candidate_id
