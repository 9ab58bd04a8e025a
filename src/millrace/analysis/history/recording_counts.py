"""Record counted instructions in histories: ratios to a reference build, by the starts of both."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypedDict

from millrace.analysis.counts.model import CountComparison
from millrace.analysis.counts.stored_counts import compare_stored, counted_run
from millrace.analysis.history.environments import Side, environment
from millrace.levels import Level, level_value, without_clients
from millrace.model.documents import short_digest
from millrace.model.instruction_counts import MARGIN
from millrace.model.measurements import INSTRUCTIONS
from millrace.stats.unpaired_ratio import UnpairedRatio
from millrace.store.history_records import HistoryPart, PointRecord, SeriesRecord, StateRecord
from millrace.store.records import StoredRun, TreatmentRecord

Recorded = tuple[SeriesRecord, PointRecord]


def counted_beside(
    stored: StoredRun, factor: str, pairs: Mapping[tuple[str, str], Recorded]
) -> Iterator[Recorded]:
    """Yield the ratios of instructions that a run counted beside what it measured.

    ``pairs`` are other points by the ids of their treatments.
    """
    treatments = {each.id: each for each in stored.treatments}
    yielded: set[tuple[str, str]] = set()
    for (base, candidate), (of, point) in pairs.items():
        counts = compare_stored(stored, factor, treatments[base], treatments[candidate])
        if counts is None or counts.ratio is None:
            continue
        series = _series(stored, factor, of.reference, of.candidate, of.fixed_factors)
        if (series.id, point.label) in yielded:
            continue  # one count holds for any number of clients
        yielded.add((series.id, point.label))
        yield series, replace(point, **_figures(counts, counts.ratio))


def of_counted_run(
    stored: StoredRun, *, reference: Level, label: str | None, at_utc: str
) -> tuple[HistoryPart, tuple[str, ...]]:
    """Return the points of a run that counts, and what has none and why, a clause each.

    ``label`` is as for ``recording.points_of``.
    """
    factor = stored.run.spec.compare.factor
    sides = _sides(stored)
    candidates = _candidates(stored, factor, reference)
    series: dict[str, SeriesRecord] = {}
    states: dict[str, StateRecord] = {}
    points: list[tuple[str, PointRecord]] = []
    left_out: dict[str, None] = {}
    for group in counted_run(stored, reference).groups:
        for counts in group.comparisons:
            level = counts.candidate.levels[factor]
            if level not in candidates:
                continue
            if counts.ratio is None:
                without = (each for each in (counts.base, counts.candidate) if each.refusal)
                left_out |= {f"{each.label}: {each.refusal}": None for each in without}
                continue
            fixed = {name: of for name, of in counts.base.levels.items() if name != factor}
            own = level if label is not None and len(candidates) > 1 else None
            of = _series(stored, factor, reference, own, fixed)
            base, candidate = (_key(each.levels) for each in (counts.base, counts.candidate))
            state = environment(stored.run, factor, sides[base], sides[candidate])
            series[of.id], states[state.id] = of, state
            point = PointRecord(
                label=level_value(level) if label is None else label,
                at_utc=at_utc,
                run_id=stored.run.id,
                place=candidates.index(level),
                level=sides[candidate].resolved[factor],
                build=sides[candidate].build,
                state=state.id,
                **_figures(counts, counts.ratio),
            )
            points.append((of.id, point))
    part = HistoryPart(tuple(series.values()), tuple(states.values()), tuple(points))
    return part, tuple(left_out)


class _Figures(TypedDict):
    """The fields of a point that come from counts."""

    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    log_sd: None


def _figures(counts: CountComparison, ratio: UnpairedRatio) -> _Figures:
    starts = min(len(counts.base.values), len(counts.candidate.values))
    return _Figures(ratio=ratio.ratio, low=ratio.low, high=ratio.high, n_blocks=starts, log_sd=None)


def _series(
    stored: StoredRun,
    factor: str,
    reference: Level,
    candidate: Level | None,
    fixed_factors: Mapping[str, Level],
) -> SeriesRecord:
    run, fixed = stored.run, without_clients(fixed_factors)
    return SeriesRecord(
        id=short_digest([run.name, run.digest, factor, reference, candidate, fixed, INSTRUCTIONS]),
        experiment=run.name,
        digest=run.digest,
        factor=factor,
        reference=reference,
        candidate=candidate,
        fixed_factors=fixed,
        metric=INSTRUCTIONS,
        title="instructions per statement",
        unit="instructions",
        direction="lower",
        margin=MARGIN,
    )


def _candidates(stored: StoredRun, factor: str, reference: Level) -> list[Level]:
    """Return the levels that are compared; the reference again only where there are no others."""
    resolved = {each.levels[factor]: each.resolved[factor] for each in stored.treatments}
    levels = [each for each in stored.run.spec.levels[factor] if each != reference]
    others = [each for each in levels if resolved.get(each) != resolved.get(reference)]
    return others or levels


def _sides(stored: StoredRun) -> dict[frozenset[tuple[str, Level]], Side]:
    """Return each treatment with the servers of its last start, by its levels but the clients."""
    treatments: dict[str, TreatmentRecord] = {each.id: each for each in stored.treatments}
    last = stored.last_attempts()
    found: dict[frozenset[tuple[str, Level]], Side] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if attempt is not None and attempt.outcome == "finished":
            treatment = treatments[trial.treatment_id]
            found[_key(treatment.levels)] = Side(treatment.resolved, attempt.instances)
    return found


def _key(levels: Mapping[str, Level]) -> frozenset[tuple[str, Level]]:
    return frozenset(without_clients(levels).items())
