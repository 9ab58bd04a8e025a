"""Measure the runs of an experiment: a fixed number of blocks, or until the verdicts are clear.

A sequential run is analysed after each block and ends when each comparison has its verdict; the
profiled and counted trials follow. The treatments of the next block depend only on the stored run,
so that an interrupted run continues as if nothing had happened. A fixed run measures all trials of
its plan; when resumed, it measures the trials that have no result yet.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import ComparisonStatus, Ending, RunStatus
from millrace.analysis.compare.stopping import trial_times
from millrace.campaign.blocks import mean_start_s, ratios_of, visible_at_end
from millrace.campaign.resume import RunSelection, only_begun
from millrace.campaign.run_records import design_of, stored_trial_id, waiting_trials
from millrace.campaign.scheduler import Batch, End
from millrace.experiment.estimate import profiling_extra_s, trials_s
from millrace.experiment.model import Plan, PlannedTrial
from millrace.model.events import Announcement, ClosedComparison, Emitted, RunAssessed, RunOpened
from millrace.model.trials import is_in_measured_block
from millrace.stats.sequential import FIRST_LOOK
from millrace.store.records import RunRecord, StoredRun


@dataclass(frozen=True)
class Progress:
    """The state of a run, and its next trials.

    ``status`` is the analysis so far, None for a new run.
    ``begun`` are the trials in the store; ``waiting`` are those without a result.
    ``next_block`` are the trials of the next block; if empty, ``ending`` is the reason.
    ``final`` are the profiled and counted trials, which follow all blocks.
    ``about_s`` and ``at_most_s`` are the expected and the longest remaining time.
    ``at_most_trials`` is the largest number of remaining trials.
    ``at_most_blocks`` is the number of all blocks that fit into the time limit.
    """

    status: RunStatus | None
    begun: tuple[PlannedTrial, ...]
    waiting: tuple[PlannedTrial, ...]
    next_block: tuple[PlannedTrial, ...]
    final: tuple[PlannedTrial, ...]
    ending: Ending | None
    about_s: float
    at_most_s: float
    at_most_trials: int
    at_most_blocks: int

    @property
    def blocks(self) -> int:
        """Return the number of started blocks."""
        return 0 if self.status is None else self.status.blocks

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to measure."""
        return not (self.waiting or self.next_block or self.final)


@dataclass(frozen=True)
class SequentialOpened(Announcement):
    """A sequential run starts, resumes, or has nothing left to measure."""

    selection: RunSelection
    progress: Progress


class Sequential:
    """The policy of a sequential run; ``unknown_s`` is the estimated time of a first trial."""

    def __init__(
        self, selection: RunSelection, *, retry_failed: bool = False, unknown_s: float = 0.0
    ) -> None:
        self._selection = selection
        self._retry_failed = retry_failed
        self._unknown_s = unknown_s
        self._known: Sequence[ComparisonStatus] = ()
        self._is_opened = self._has_begun_final = False

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return unfinished trials, new blocks, then final trials; see ``scheduler.Policy``."""
        was_opened, self._is_opened = self._is_opened, True
        retries = self._retry_failed and not was_opened
        now = progress(self._selection, stored, retry_failed=retries, unknown_s=self._unknown_s)
        if was_opened:
            return self._following(now, (self._assessed(now),))
        opened = SequentialOpened(self._selection, now)
        if now.is_over:
            return End(now.ending or "closed", (opened,))
        events = (opened, self._assessed(now))
        if not now.waiting:
            return self._following(now, events)
        plan = replace(self._selection.plan, trials=now.begun)
        return Batch(plan, now.blocks, resumes=True, retry_failed=self._retry_failed, events=events)

    def _following(self, now: Progress, events: tuple[Emitted, ...]) -> Batch | End:
        if now.next_block:
            plan = replace(self._selection.plan, trials=now.next_block)
            return Batch(plan, now.next_block[0].block + 1, events=events)
        if now.final and not self._has_begun_final:
            self._has_begun_final = True
            plan = replace(self._selection.plan, trials=now.final)
            return Batch(plan, now.blocks, events=events)
        return End(now.ending or "closed", events)

    def _assessed(self, now: Progress) -> RunAssessed:
        """Return the event of an analysis, with the comparisons closed since the last one."""
        comparisons = () if now.status is None else now.status.comparisons
        still_open = [each for each in comparisons if each.state == "open"]
        last_block_is_open = any(trial.block == now.blocks - 1 for trial in now.waiting)
        blocks = now.blocks - int(last_block_is_open)
        closed_before = {_key(each) for each in self._known if each.state != "open"}
        self._known = comparisons
        return RunAssessed(
            blocks=blocks,
            closed=tuple(
                ClosedComparison(label=e.label, state=e.state, verdict=e.comparison.verdict)
                for e in comparisons
                if e.state != "open" and _key(e) not in closed_before
            ),
            open=len(still_open),
            about_s=now.about_s,
            at_most_s=now.at_most_s,
            at_most_trials=now.at_most_trials,
            ended_trials=len(now.begun) - len(now.waiting),
            ratios=ratios_of(still_open),
            visible=visible_at_end(still_open, blocks, now.at_most_blocks, looks="any"),
        )


def progress(
    selection: RunSelection,
    stored: StoredRun | None,
    *,
    retry_failed: bool = False,
    unknown_s: float = 0.0,
) -> Progress:
    """Return the state of a run; ``stored`` is the run in the store, None for a new run.

    With ``retry_failed``, failed trials count as trials without a result. ``stored`` must include
    observations, because query plans can affect the verdicts that end a run.
    """
    plan = selection.plan
    if stored is None:
        return _of_new_run(plan, unknown_s)
    without_result = waiting_trials(stored, plan, retry_failed=retry_failed)
    stored = only_begun(stored)
    experiment, design = plan.experiment, design_of(plan.experiment)
    # The experiment's current settings apply, not those with which the run began.
    base, margin = str(experiment.compare.base), experiment.margin
    analysis = compare_run(stored, margin=margin, base=base, looks="any", design=design)
    status = analysis.status
    begun, final = _begun(plan, stored)
    waiting = tuple(trial for trial in begun if trial.id in without_result)
    later = [] if status.ending is not None else _later(plan, status)
    expected = [t for t in later if t.block < status.blocks + status.needed[t.treatment.id]]
    times = trial_times(analysis, unknown_s=unknown_s)
    all_s = at_most_s = trials_s(later, times)
    if design.max_time_s is not None:
        at_most_s = min(at_most_s, max(design.max_time_s - analysis.spent_s, 0.0))
    fits = _fitting(all_s, at_most_s)
    later_blocks = len({trial.block for trial in later})
    next_block = _placed((t for t in later if t.block == status.blocks), len(stored.trials))
    later_trials = max(math.ceil(fits * len(later)), len(next_block))
    certain, start_s = (*waiting, *final), mean_start_s(stored)
    for_certain_s = trials_s(certain, times, start_s, profiling_extra_s(plan))
    return Progress(
        status=status,
        begun=begun,
        waiting=waiting,
        next_block=next_block,
        final=_placed(final, len(stored.trials)),
        ending=status.ending,
        about_s=for_certain_s + min(trials_s(expected, times), at_most_s),
        at_most_s=for_certain_s + at_most_s,
        at_most_trials=len(waiting) + later_trials + len(final),
        at_most_blocks=status.blocks + int(fits * later_blocks),
    )


def _of_new_run(plan: Plan, unknown_s: float) -> Progress:
    blocks = [trial for trial in plan.trials if is_in_measured_block(trial.purpose)]
    final = tuple(trial for trial in plan.trials if not is_in_measured_block(trial.purpose))
    first = [trial for trial in blocks if trial.block < FIRST_LOOK]
    limit_s = plan.experiment.max_time_s
    times = dict.fromkeys((each.id for each in plan.treatments), unknown_s)
    all_s = at_most_s = trials_s(blocks, times)
    if limit_s is not None:
        at_most_s = min(at_most_s, limit_s)
    fits = _fitting(all_s, at_most_s)
    first_block = tuple(trial for trial in blocks if trial.block == 0)
    final_s = trials_s(final, times, extra_s=profiling_extra_s(plan))
    return Progress(
        status=None,
        begun=(),
        waiting=(),
        next_block=first_block,
        final=final,
        ending=None,
        about_s=min(trials_s(first, times), at_most_s) + final_s,
        at_most_s=at_most_s + final_s,
        at_most_trials=max(math.ceil(fits * len(blocks)), len(first_block)) + len(final),
        at_most_blocks=int(fits * plan.experiment.blocks),
    )


def _fitting(all_s: float, at_most_s: float) -> float:
    """Return the fraction of trials that fit into ``at_most_s`` if all would take ``all_s``."""
    return at_most_s / all_s if all_s else 1.0


def _begun(plan: Plan, stored: StoredRun) -> tuple[tuple[PlannedTrial, ...], list[PlannedTrial]]:
    places = {trial.id: place for place, trial in enumerate(stored.trials)}
    planned = [(stored_trial_id(stored.run, trial), trial) for trial in plan.trials]
    begun = [replace(t, position=places[name]) for name, t in planned if name in places]
    final = [t for name, t in planned if name not in places and not is_in_measured_block(t.purpose)]
    return tuple(sorted(begun, key=lambda trial: trial.position)), final


def _later(plan: Plan, status: RunStatus) -> list[PlannedTrial]:
    return [
        trial
        for trial in plan.trials
        if is_in_measured_block(trial.purpose)
        and trial.block >= status.blocks
        and trial.treatment.id in status.needed
    ]


def _placed(trials: Iterable[PlannedTrial], after: int) -> tuple[PlannedTrial, ...]:
    return tuple(replace(trial, position=after + at) for at, trial in enumerate(trials))


def _key(status: ComparisonStatus) -> tuple[str, str]:
    return status.comparison.base_id, status.comparison.candidate_id


class Fixed:
    """The policy that measures all trials without a result, and failed ones if ``retry_failed``."""

    def __init__(self, selection: RunSelection, *, retry_failed: bool = False) -> None:
        self._selection = selection
        self._retry_failed = retry_failed
        self._is_started = False

    def next_batch(self, stored: StoredRun | None) -> Batch | End:
        """Return the whole plan once; see ``campaign.scheduler.Policy``."""
        if self._is_started:
            return End("done")
        self._is_started = True
        run, plan = self._selection.run, self._selection.plan
        waiting = {trial.id for trial in plan.trials}
        if stored is not None:
            waiting = waiting_trials(stored, plan, retry_failed=self._retry_failed)
        if stored is not None and not waiting:
            return End("done", (_opened(run, len(stored.trials), 0),))
        opened = _opened(run, len(plan.trials), len(waiting))
        return Batch(plan, run.blocks, retry_failed=self._retry_failed, events=(opened,))


def _opened(run: RunRecord, trials: int, waiting: int) -> RunOpened:
    """Return the event for the start of a run; ``waiting`` trials have no result yet."""
    confirms = run.spec.confirms
    return RunOpened(run=run.id, seed=run.seed, trials=trials, waiting=waiting, confirms=confirms)
