"""Compare the instructions of two treatments of a stored run."""

from millrace.analysis.counts.compare_counts import comparison, treatment_count
from millrace.analysis.counts.model import CountComparison
from millrace.levels import CLIENTS, without_clients
from millrace.model.instruction_counts import Program, TreatmentStarts
from millrace.store.records import StoredAttempt, StoredRun, TreatmentRecord


def compare_stored(
    stored: StoredRun, factor: str, base: TreatmentRecord, candidate: TreatmentRecord
) -> CountComparison | None:
    """Return the comparison of two treatments' counts; None where neither was counted.

    ``stored`` has its observations.
    """
    a, b = (_starts(stored, each) for each in (base, candidate))
    if factor == CLIENTS or not any((a.starts, a.failure, b.starts, b.failure)):
        return None
    return comparison(treatment_count(a, factor), treatment_count(b, factor))


def _starts(stored: StoredRun, treatment: TreatmentRecord) -> TreatmentStarts:
    """Return the counted starts of a treatment, or of one with other clients."""
    levels = without_clients(treatment.levels)
    alike = {each.id for each in stored.treatments if without_clients(each.levels) == levels}
    last = stored.last_attempts()
    ended = [
        last[trial.id]
        for trial in stored.trials
        if trial.purpose == "count" and trial.treatment_id in alike and trial.id in last
    ]
    counts = [each.observations.instructions for each in ended]
    found = [each for each in counts if each is not None]
    programs: list[Program | None] = [each.built_as() for each in found]
    failed = [each for each in ended if each.outcome == "failed"]
    return TreatmentStarts(
        levels=levels,
        starts=tuple(each.start() for each in found),
        program=programs[-1] if programs else None,
        failure=_reason(failed[0]) if failed else None,
        failed=len(failed),
    )


def _reason(attempt: StoredAttempt) -> str:
    return attempt.reason or f"a start failed at step {attempt.failed_step}"
