"""Decide the outcome of a change whose builds before and after were measured again, interleaved.

Only this measurement is independent evidence, since the change was selected from the history. The
interval holds for any number of looks, so that blocks may be added until it decides.
"""

from dataclasses import dataclass, replace

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.estimates import paired_values
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.verdict import decide, power
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.store.history_records import ChangeRecord, Remeasured, SeriesRecord
from millrace.store.records import StoredRun


@dataclass(frozen=True)
class Ends:
    """The labels of the points whose builds were measured."""

    before: str
    after: str


@dataclass(frozen=True)
class Outcome:
    """A change after the measurement; ``more_blocks`` would decide it, None if unknown."""

    change: ChangeRecord
    more_blocks: int | None


def outcome(
    stored: StoredRun, change: ChangeRecord, series: SeriesRecord, ends: Ends, now_utc: str
) -> Outcome | None:
    """Return the outcome of a run that measures a change of ``series`` again, if any.

    A change into the same direction is confirmed where the verdict is that one; an equivalence, or
    a change into the other direction, withdraws it; all else leaves it a candidate.
    """
    analysis = compare_run(stored)
    every = (each for group in analysis.groups for each in group.comparisons)
    comparison = next((each for each in every if each.metric.name == series.metric), None)
    estimate = None if comparison is None else _estimate(analysis, comparison)
    if comparison is None or estimate is None:
        return None
    verdict, reason = decide(estimate, series.direction, series.margin)
    if refused := comparison.unequal or comparison.unsteady:
        verdict, reason = "inconclusive", refused
    again = Remeasured(
        run_id=stored.run.id,
        before=ends.before,
        after=ends.after,
        ratio=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        n_blocks=estimate.n_pairs,
        verdict=verdict or "inconclusive",
        reason=reason,
        utc=now_utc,
    )
    seen = power(estimate, series.margin)
    more = None if seen is None or refused else seen.more_blocks
    return Outcome(_settled(replace(change, remeasured=again), series), more)


def _settled(change: ChangeRecord, series: SeriesRecord) -> ChangeRecord:
    again = change.remeasured
    assert again is not None
    if again.verdict == "inconclusive":
        return change
    if again.verdict == "equivalent":
        return replace(change, state="withdrawn", reason=f"measured again: {again.reason}")
    is_worse = (change.ratio < 1) == (series.direction == "higher")
    if again.verdict == ("regression" if is_worse else "improvement"):
        return replace(change, state="confirmed", reason="")
    return replace(
        change, state="withdrawn", reason=f"measured again: {again.verdict}, {again.reason}"
    )


def _estimate(analysis: RunAnalysis, comparison: Comparison) -> RatioEstimate | None:
    treatments = {each.id: each for each in analysis.treatments}
    base, candidate = treatments[comparison.base_id], treatments[comparison.candidate_id]
    pairs = paired_values(base, candidate, comparison.metric)
    return paired_ratio(*pairs, looks="any") if pairs[0] else None
