"""Choose the settings of a counted start, from those of the run that have ended.

Servers are compared by the same statements. So the first start of a group chooses how many there
are, by their time, and all others take as many. A treatment that failed once is not started again:
it would fail again, after minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.experiment.model import Compare, PlannedTrial
from millrace.levels import Level, without_clients
from millrace.store.records import RunRecord
from millrace.store.store import Store
from millrace.trial.counting import Extent, extent_of


@dataclass(frozen=True)
class CountSettings:
    """The settings of a counted start; it chooses its own ``extent`` where that is None.

    ``failed_before`` is the reason for which an earlier start of the treatment failed.
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
    extent = failed_before = None
    for other in stored.trials:
        attempt = last.get(other.id)
        if other.purpose != "count" or attempt is None:
            continue
        counts = attempt.observations.instructions
        if counts is not None and _fixed(levels[other.treatment_id], compare.factor) == group:
            extent = extent_of(counts.transactions)
        is_earlier = other.treatment_id == trial.treatment.id and other.block < trial.block
        if is_earlier and attempt.outcome == "failed":
            failed_before = failed_before or f"an earlier start failed: {attempt.reason}"
    return CountSettings(extent, failed_before)


def _fixed(levels: Mapping[str, Level], factor: str) -> dict[str, Level]:
    return {name: level for name, level in without_clients(levels).items() if name != factor}
