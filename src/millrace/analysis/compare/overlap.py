"""For how much of their time the two of a pair were measured together, by the clock that all
processes of a host share."""

from __future__ import annotations

from millrace.store.records import StoredAttempt, StoredRun


def least_overlap(stored: StoredRun) -> float | None:
    """Return the smallest overlap of any concurrent pair: the time in which both were measured, as
    a fraction of the longer measured part. None where no pair was measured concurrently."""
    factor = stored.run.spec.compare.factor
    last = stored.last_attempts()
    levels = {each.id: each.levels for each in stored.treatments}
    pairs: dict[object, list[tuple[float, float]]] = {}
    for trial in stored.trials:
        window = _window(last.get(trial.id))
        if window is not None:
            of = levels[trial.treatment_id].items()
            held = frozenset(item for item in of if item[0] != factor)
            pairs.setdefault((trial.block, held), []).append(window)
    return min((_share(*pair) for pair in pairs.values() if len(pair) == 2), default=None)


def _window(attempt: StoredAttempt | None) -> tuple[float, float] | None:
    """Return the seconds at which the measured part of a finished trial began and ended."""
    if attempt is None or attempt.outcome != "finished":
        return None
    for instance in attempt.instances:
        found = instance.facts.concurrent
        if found is not None:
            return found.measured_from_s, found.measured_to_s
    return None


def _share(one: tuple[float, float], other: tuple[float, float]) -> float:
    both_s = min(one[1], other[1]) - max(one[0], other[0])
    longer_s = max(one[1] - one[0], other[1] - other[0])
    return max(both_s, 0.0) / longer_s
