"""What besides the servers may have shaped a run's figures: generator, warnings, looks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean

from millrace.store.records import StoredAttempt, StoredRun


def generator_wait(finished: Sequence[StoredAttempt]) -> float | None:
    """The fraction of the load in which the sender waited for rows to be made, over all trials.

    None where no trial measured both.
    """
    waited_s = load_s = 0.0
    for attempt in finished:
        wait = _measured(attempt, "load_generator_wait_s")
        load = _measured(attempt, "load_duration_s")
        if wait is not None and load is not None:
            waited_s += wait
            load_s += load
    return waited_s / load_s if load_s > 0 else None


def load_warnings(finished: Sequence[StoredAttempt]) -> float | None:
    """Warnings that the load raised, a mean over the trials that counted them; None without one."""
    counts = [
        count for attempt in finished if (count := _measured(attempt, "load_warnings")) is not None
    ]
    return fmean(counts) if counts else None


def looks(stored: StoredRun) -> tuple[int, ...]:
    """How many blocks had a result each time blocks were added, in order; mostly none.

    Counted from the trials themselves: an extension before the first result followed no look.
    """
    ended = [
        (datetime.fromisoformat(attempt.ended_utc), attempt.trial_id)
        for attempt in stored.attempts
        if attempt.ended_utc is not None and attempt.outcome in ("finished", "failed")
    ]
    blocks = {trial.id: trial.block for trial in stored.trials}
    seen = []
    for extension in stored.run.spec.get("extensions") or ():
        added = datetime.fromisoformat(extension["utc"])
        seen.append(len({blocks[trial_id] for when, trial_id in ended if when <= added}))
    return tuple(dict.fromkeys(number for number in seen if number))


def _measured(attempt: StoredAttempt, name: str) -> float | None:
    """The server's measurement of that name, which an older run may lack."""
    return next(
        (m.value for m in attempt.measurements if m.role == "server" and m.name == name), None
    )
