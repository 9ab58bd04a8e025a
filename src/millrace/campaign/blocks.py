"""A campaign's run grows block by block: what is open of it, and what is there of it already."""

from __future__ import annotations

from dataclasses import replace

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
