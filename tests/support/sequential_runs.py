"""Build stored runs that looks decide on, cut to their first blocks."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from millrace.model.run_spec import Design
from millrace.store.records import StoredRun, TrialRecord
from tests.support.builders import Fails, RunBuilder

BASE = "mysql-5.6.24"
SEQUENTIAL = Design(kind="sequential", blocks=20)


def run_of(
    times: Mapping[str, Sequence[float | Fails | None]], design: Design = SEQUENTIAL
) -> StoredRun:
    """Return a run of this design; the first server is the base."""
    stored = RunBuilder(times, base=next(iter(times)), published=None).build()
    return designed(stored, design)


def designed(stored: StoredRun, design: Design) -> StoredRun:
    spec = stored.run.spec.replace(design=design)
    return replace(stored, run=replace(stored.run, spec=spec))


def drawn(
    ratios: Mapping[str, float], blocks: int, *, seed: int, spread: float = 0.01
) -> dict[str, list[float]]:
    """Draw each server's seconds in each block, with a base of 4 s on a host that drifts."""
    source = random.Random(seed)
    drift = [1.0 + 0.02 * block for block in range(blocks)]
    return {
        name: [4.0 * ratio * d * source.lognormvariate(0, spread) for d in drift]
        for name, ratio in ratios.items()
    }


def first_blocks(stored: StoredRun, blocks: int) -> StoredRun:
    """Return the run as it was after this many blocks."""
    trials = tuple(trial for trial in stored.trials if trial.block < blocks)
    return _with_trials(replace(stored, run=replace(stored.run, blocks=blocks)), trials)


def dropped(stored: StoredRun, server: str, after: int) -> StoredRun:
    """Return the run as if a server had dropped out after this many blocks."""
    ids = {each.id for each in stored.treatments if each.levels["server"] == server}
    trials = tuple(t for t in stored.trials if t.treatment_id not in ids or t.block < after)
    return _with_trials(stored, trials)


def _with_trials(stored: StoredRun, trials: tuple[TrialRecord, ...]) -> StoredRun:
    kept = {trial.id for trial in trials}
    attempts = tuple(attempt for attempt in stored.attempts if attempt.trial_id in kept)
    return replace(stored, trials=trials, attempts=attempts)


def with_aa_trials(stored: StoredRun, ratios: Mapping[int, float]) -> StoredRun:
    """Return the run with a faster A/A trial in these blocks.

    The factor is relative to the base's trial.

    A factor of 0 stands for a failed trial."""
    bases = {t.id for t in stored.treatments if t.levels["server"] == stored.run.spec.compare.base}
    trials, attempts = list(stored.trials), list(stored.attempts)
    of_trial = {attempt.trial_id: attempt for attempt in stored.attempts}
    for beside in stored.trials:
        ratio = ratios.get(beside.block)
        if ratio is None or beside.treatment_id not in bases:
            continue
        aa_trial = replace(beside, id=f"{beside.id}-aa", position=len(trials), purpose="aa")
        trials.append(aa_trial)
        attempt = replace(of_trial[beside.id], id=len(attempts) + 1, trial_id=aa_trial.id)
        durations = ("load_duration_s", "finish_duration_s")
        measured = tuple(
            replace(each, value=each.value / ratio) if ratio and each.name in durations else each
            for each in attempt.measurements
        )
        failed = replace(attempt, outcome="failed", failed_step="start", reason="no room")
        attempts.append(replace(attempt, measurements=measured) if ratio else failed)
    return replace(stored, trials=tuple(trials), attempts=tuple(attempts))
