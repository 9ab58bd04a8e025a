"""Compare the instructions of treatments of a stored run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.counts.compare_counts import compare_counts, comparison, treatment_count
from millrace.analysis.counts.model import CountComparison, CountGroup
from millrace.levels import CLIENTS, Level, without_clients
from millrace.model.instruction_counts import Program, TreatmentStarts
from millrace.store.records import RunRecord, StoredAttempt, StoredRun, TreatmentRecord

RUN_PREFIX = "count-"
"""The beginning of the name of a run that counts and measures nothing else."""


@dataclass(frozen=True)
class CountedRun:
    """A run that counts and measures nothing else; ``starts`` are those of each server."""

    run: RunRecord
    starts: int
    groups: tuple[CountGroup, ...]

    @property
    def experiment(self) -> str:
        """The name of the experiment that was counted."""
        return self.run.name.removeprefix(RUN_PREFIX)


def counted_run(stored: StoredRun, base: Level | None = None) -> CountedRun:
    """Compare all treatments of a run that counts with ``base``, by default the run's own.

    ``stored`` has its observations.
    """
    compare = stored.run.spec.compare
    ended = _ended(stored)
    in_order = sorted(stored.treatments, key=lambda each: each.position)
    found = [_starts(ended, each) for each in in_order]
    return CountedRun(
        run=stored.run,
        starts=len({trial.block for trial in stored.trials if trial.purpose == "count"}),
        groups=compare_counts(found, compare.factor, compare.base if base is None else base),
    )


def compare_stored(
    stored: StoredRun, factor: str, base: TreatmentRecord, candidate: TreatmentRecord
) -> CountComparison | None:
    """Return the comparison of two treatments' counts; None where neither was counted.

    ``stored`` has its observations.
    """
    ended = _ended(stored)
    a, b = (_starts(ended, each) for each in (base, candidate))
    if factor == CLIENTS or not any((a.starts, a.failure, b.starts, b.failure)):
        return None
    return comparison(treatment_count(a, factor), treatment_count(b, factor))


_Levels = frozenset[tuple[str, Level]]


def _key(treatment: TreatmentRecord) -> _Levels:
    """Return the levels of all factors but the clients, who share a count."""
    return frozenset(without_clients(treatment.levels).items())


def _ended(stored: StoredRun) -> dict[_Levels, list[StoredAttempt]]:
    """Return the last attempts of counted trials that ended, by the levels of their treatments."""
    keys = {each.id: _key(each) for each in stored.treatments}
    last = stored.last_attempts()
    found: dict[_Levels, list[StoredAttempt]] = {}
    for trial in stored.trials:
        if trial.purpose == "count" and trial.id in last:
            found.setdefault(keys[trial.treatment_id], []).append(last[trial.id])
    return found


def _starts(
    ended: Mapping[_Levels, Sequence[StoredAttempt]], treatment: TreatmentRecord
) -> TreatmentStarts:
    """Return the counted starts of a treatment, or of one with other clients."""
    of_treatment = ended.get(_key(treatment), ())
    counts = [each.observations.instructions for each in of_treatment]
    found = [each for each in counts if each is not None]
    programs: list[Program | None] = [each.built_as() for each in found]
    failed = [each for each in of_treatment if each.outcome == "failed"]
    return TreatmentStarts(
        levels=without_clients(treatment.levels),
        starts=tuple(each.start() for each in found),
        program=programs[-1] if programs else None,
        failure=_reason(failed[0]) if failed else None,
        failed=len(failed),
    )


def _reason(attempt: StoredAttempt) -> str:
    return attempt.reason or f"a start failed at step {attempt.failed_step}"
