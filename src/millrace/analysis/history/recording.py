"""Record a run in histories: its ratios to a reference build that was measured in the same blocks.

Ratios to a build that never changes stay the same while the host changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from millrace.analysis.compare.compare_run import base_level, compare_run
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.history.environments import Side, environment
from millrace.analysis.history.recording_counts import counted_beside, of_counted_run
from millrace.errors import UserError
from millrace.levels import Level, level_text, level_value
from millrace.model.documents import short_digest
from millrace.store.history_records import HistoryPart, PointRecord, SeriesRecord, StateRecord
from millrace.store.records import StoredRun

LONGEST_LABEL = 255


@dataclass(frozen=True)
class Drawn:
    """The points of a run, and what has none and why, a clause each."""

    part: HistoryPart
    left_out: tuple[str, ...]


def points_of(stored: StoredRun, *, reference: str | None, label: str | None, at_utc: str) -> Drawn:
    """Return the run's ratios to the level ``reference`` (by default its base), by their series.

    With a ``label`` each candidate level is a series of its own where there are several; without
    one their levels are the labels. Raise UserError where there is no ratio, or for an invalid
    label.
    """
    if label is not None:
        _check_label(label)
    if stored.run.spec.counts is not None:
        return _of_counted_run(stored, reference, label, at_utc)
    analysis = compare_run(stored, base=reference)
    comparisons = [comparison for group in analysis.groups for comparison in group.comparisons]
    # An A/A trial's level is a candidate only where there are no others.
    levels = dict.fromkeys(each.candidate for each in comparisons)
    others = dict.fromkeys(each.candidate for each in comparisons if not each.same)
    candidates = [*(others or levels)]
    if not candidates:
        raise _no_candidate(stored, analysis.base_text)
    analyses = {each.id: each for each in analysis.treatments}
    series: dict[str, SeriesRecord] = {}
    states: dict[str, StateRecord] = {}
    points: list[tuple[str, PointRecord]] = []
    pairs: dict[tuple[str, str], tuple[SeriesRecord, PointRecord]] = {}
    left_out: dict[str, None] = {}
    for comparison in comparisons:
        if comparison.candidate not in candidates:
            continue
        why = comparison.unequal or comparison.unsteady
        if comparison.estimate is None:
            why = comparison.reason.partition("\n")[0]
        if why:
            left_out[f"{analyses[comparison.candidate_id].label}: {why}"] = None
            continue
        base, candidate = analyses[comparison.base_id], analyses[comparison.candidate_id]
        own = comparison.candidate if label is not None and len(candidates) > 1 else None
        of = _series(analysis, comparison, own)
        a, b = (Side(each.resolved, each.instances) for each in (base, candidate))
        state = environment(analysis.run, analysis.factor, a, b)
        series[of.id], states[state.id] = of, state
        name = label if label is not None else level_value(comparison.candidate)
        place = candidates.index(comparison.candidate)
        point = _point(comparison, b, analysis, (name, at_utc, place), state)
        points.append((of.id, point))
        pairs[base.id, candidate.id] = of, point
    for of, point in counted_beside(stored, analysis.factor, pairs):
        series[of.id] = of
        points.append((of.id, point))
    if not points:
        raise _no_ratio(stored, analysis.base_text, left_out)
    part = HistoryPart(tuple(series.values()), tuple(states.values()), tuple(points))
    return Drawn(part, tuple(left_out))


def _of_counted_run(
    stored: StoredRun, reference: str | None, label: str | None, at_utc: str
) -> Drawn:
    spec = stored.run.spec
    base = base_level(spec, reference)
    part, left_out = of_counted_run(stored, reference=base, label=label, at_utc=at_utc)
    if not part.points:
        base_text = level_text(spec.compare.factor, base)
        if left_out:
            raise _no_ratio(stored, base_text, left_out)
        raise _no_candidate(stored, base_text)
    return Drawn(part, left_out)


def _no_candidate(stored: StoredRun, base_text: str) -> UserError:
    return UserError(
        f"run {stored.run.id} has no candidate beside the reference {base_text}",
        hint="measure a build and the reference in one experiment, and record that run",
    )


def _no_ratio(stored: StoredRun, base_text: str, left_out: Iterable[str]) -> UserError:
    reasons = "\n".join(f"  {clause}" for clause in left_out)
    return UserError(
        f"run {stored.run.id} has no ratio to {base_text}:\n{reasons}",
        hint=f"`millrace report {stored.run.id}` shows what it found",
    )


def _check_label(label: str) -> None:
    if not label.strip() or len(label) > LONGEST_LABEL or not label.isprintable():
        raise UserError(
            f"{label!r} cannot be the label of a point",
            hint=f"give a version or a commit: one line, {LONGEST_LABEL} characters at most",
        )


def _series(analysis: RunAnalysis, comparison: Comparison, candidate: Level | None) -> SeriesRecord:
    run, metric = analysis.run, comparison.metric
    of_run = (run.name, run.digest, analysis.factor, comparison.base, candidate)
    return SeriesRecord(
        id=short_digest([*of_run, dict(comparison.fixed_factors), metric.name]),
        experiment=run.name,
        digest=run.digest,
        factor=analysis.factor,
        reference=comparison.base,
        candidate=candidate,
        fixed_factors=dict(comparison.fixed_factors),
        metric=metric.name,
        title=metric.title,
        unit=metric.unit,
        direction=metric.direction,
        margin=run.margin,
    )


def _point(
    comparison: Comparison,
    candidate: Side,
    analysis: RunAnalysis,
    named: tuple[str, str, int],
    state: StateRecord,
) -> PointRecord:
    estimate = comparison.estimate
    assert estimate is not None
    label, at_utc, place = named
    return PointRecord(
        label=label,
        at_utc=at_utc,
        run_id=analysis.run.id,
        place=place,
        level=candidate.resolved[analysis.factor],
        build=candidate.build,
        ratio=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        n_blocks=comparison.n_blocks,
        log_sd=estimate.log_sd,
        state=state.id,
    )
