"""Choose the settings of a counted start, from those of the run that have ended.

Servers are compared by the same statements. So the first start of a group chooses how many there
are, by their CPU time, and all others take as many. A treatment of which two starts failed is not
started again: it would fail again, after minutes, and too few starts would be left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from millrace.analysis.compare.treatments import trial_s
from millrace.experiment.model import Compare, PlannedTrial
from millrace.levels import Level, without_clients
from millrace.model.instruction_counts import MOST_FAILED
from millrace.store.records import RunRecord, StoredRun
from millrace.store.store import Store
from millrace.trial.counting import Extent, extent_of


@dataclass(frozen=True)
class CountSettings:
    """The settings of a counted start; it chooses its own ``extent`` where that is None.

    ``failed_before`` says why the treatment is not started again.
    """

    extent: Extent | None = None
    failed_before: str | None = None


def count_settings(
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


def mean_start_s(stored: StoredRun) -> float | None:
    """Return the mean time of a run's counted starts, in seconds; None where none has ended."""
    counted = {trial.id for trial in stored.trials if trial.purpose == "count"}
    times = [
        trial_s(each)
        for each in stored.attempts
        if each.trial_id in counted and each.outcome == "finished"
    ]
    return fmean(times) if times else None


def _fixed(levels: Mapping[str, Level], factor: str) -> dict[str, Level]:
    return {name: level for name, level in without_clients(levels).items() if name != factor}
