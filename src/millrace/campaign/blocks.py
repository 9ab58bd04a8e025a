"""Query an unfinished run: its blocks, its ratios so far, and the time it has taken."""

import math
from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import ComparisonStatus
from millrace.analysis.compare.stopping import visible_changes
from millrace.analysis.compare.treatments import trial_s
from millrace.model.events import InterimRatio, VisibleChanges
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.stats.ratio import Looks
from millrace.store.records import StoredRun


def joined(earlier: StoredRun | None, later: StoredRun, *, from_block: int) -> StoredRun:
    """Return a run with the blocks before ``from_block`` of ``earlier``, and those of ``later``."""
    if earlier is None:
        return later
    kept = tuple(trial for trial in earlier.trials if trial.block < from_block)
    ids = {trial.id for trial in kept}
    attempts = tuple(attempt for attempt in earlier.attempts if attempt.trial_id in ids)
    return replace(later, trials=(*kept, *later.trials), attempts=(*attempts, *later.attempts))


def n_blocks(stored: StoredRun | None) -> int:
    """Return the number of started blocks."""
    if stored is None:
        return 0
    return max((trial.block + 1 for trial in stored.trials), default=0)


def open_block_number(stored: StoredRun | None) -> int | None:
    """Return the number of the first block with trials that have no result; None if none has."""
    if stored is None:
        return None
    ended = stored.last_attempts()
    return next((trial.block for trial in stored.trials if trial.id not in ended), None)


def would_be_late(stored: StoredRun | None, limit_s: float | None) -> bool:
    """Return whether the trials' total time would exceed ``limit_s`` after one more mean block."""
    if stored is None or limit_s is None:
        return False
    spent_s = math.fsum(trial_s(attempt) for attempt in stored.attempts)
    return spent_s + spent_s / max(1, n_blocks(stored)) > limit_s


def mean_start_s(stored: StoredRun) -> float | None:
    """Return the mean time of a run's finished counted starts, in seconds; None without any."""
    counted = {trial.id for trial in stored.trials if trial.purpose == "count"}
    times = [
        trial_s(each)
        for each in stored.attempts
        if each.trial_id in counted and each.outcome == "finished"
    ]
    return fmean(times) if times else None


def interim_status(stored: StoredRun) -> tuple[ComparisonStatus, ...]:
    """Return the comparisons so far, with intervals that hold for any number of analyses."""
    return compare_run(stored, looks="any").status.comparisons


def ratios_of(comparisons: Iterable[ComparisonStatus]) -> tuple[InterimRatio, ...]:
    """Return the ratios of the comparisons that have one, the largest differences first."""
    found = [
        InterimRatio(label=each.label, ratio=estimate.ratio, low=estimate.low, high=estimate.high)
        for each in comparisons
        if (estimate := each.comparison.estimate) is not None
    ]
    return tuple(sorted(found, key=lambda each: -abs(math.log(each.ratio))))


def visible_at_end(
    comparisons: Iterable[ComparisonStatus], blocks: int, last: int, looks: Looks
) -> VisibleChanges | None:
    """Return the changes that ``last`` blocks will show, by the noise of the first ``blocks``.

    Return None unless ``blocks`` is FEWEST_BLOCKS, so that the user reads this once.
    """
    if blocks != FEWEST_BLOCKS or last <= blocks:
        return None
    changes = visible_changes((each.comparison for each in comparisons), last, looks)
    return None if changes is None else VisibleChanges(last, *changes)
