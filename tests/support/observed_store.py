"""Store runs with their observations, for the tests of commands that explain them."""

from pathlib import Path

from millrace.store.records import AttemptResult, StoredRun
from millrace.store.store import Store
from tests.support.builders import OWNER


def keep(stored: StoredRun, path: Path) -> Path:
    """Write ``stored`` to a results store at ``path``, the way the runner does."""
    with Store.open(path) as store:
        store.begin_run(stored.run, stored.treatments, stored.trials)
        for attempt in stored.attempts:
            claimed = store.claim(
                attempt.trial_id, OWNER, attempt.started_utc, is_alive=lambda _owner: False
            )
            assert claimed is not None
            observed = attempt.observations.model_dump(
                mode="json", by_alias=True, exclude_unset=True
            )
            result = AttemptResult(
                outcome="finished",
                instances=attempt.instances,
                measurements=attempt.measurements,
                histograms=attempt.histograms,
                observations={"server": observed},
            )
            store.finish(claimed, result, attempt.ended_utc or attempt.started_utc)
    return path
