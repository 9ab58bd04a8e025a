"""A campaign's run grows block by block: what is open of it, and what is there of it already."""

from __future__ import annotations

import math
from dataclasses import replace

from millrace.analysis.compare.treatments import trial_s
from millrace.store.records import StoredRun


def joined(earlier: StoredRun | None, later: StoredRun, *, from_block: int) -> StoredRun:
    """The run of which ``later`` has the blocks from ``from_block`` on, and ``earlier`` all before
    them: of a long run only what is new has to be read."""
    if earlier is None:
        return later
    kept = tuple(trial for trial in earlier.trials if trial.block < from_block)
    ids = {trial.id for trial in kept}
    attempts = tuple(attempt for attempt in earlier.attempts if attempt.trial_id in ids)
    return replace(later, trials=(*kept, *later.trials), attempts=(*attempts, *later.attempts))


def n_blocks(stored: StoredRun | None) -> int:
    """How many blocks were begun."""
    if stored is None:
        return 0
    return max((trial.block + 1 for trial in stored.trials), default=0)


def open_block(stored: StoredRun | None) -> int | None:
    """The block that has trials without a result: an interrupted one; None where there is none."""
    if stored is None:
        return None
    ended = stored.last_attempts()
    return next((trial.block for trial in stored.trials if trial.id not in ended), None)


def usual_block_s(stored: StoredRun | None) -> float:
    """How long a block takes, a mean over those that were begun; 0 where there is none."""
    return _spent_s(stored) / n_blocks(stored) if stored is not None and n_blocks(stored) else 0.0


def would_be_late(stored: StoredRun | None, limit_s: float | None) -> bool:
    """Whether all trials of a run, and another block like those that it has, take more than
    ``limit_s``, however often the run was continued; None: they may take any time."""
    if stored is None or limit_s is None:
        return False
    return _spent_s(stored) + usual_block_s(stored) > limit_s


def _spent_s(stored: StoredRun) -> float:
    return math.fsum(trial_s(attempt) for attempt in stored.attempts)
