"""Record a run in histories: its ratios to a reference build that was measured in the same blocks.

Ratios to a build that never changes stay the same while the host changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.analysis.counts.stored_counts import compare_stored
from millrace.errors import UserError
from millrace.levels import Level, level_value, without_clients
from millrace.model.documents import short_digest
from millrace.model.measurements import INSTRUCTIONS
from millrace.model.roles import MEASURED
from millrace.store.history_records import HistoryPart, PointRecord, SeriesRecord, StateRecord
from millrace.store.records import RunRecord, StoredRun

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
    analysis = compare_run(stored, base=reference)
    comparisons = [comparison for group in analysis.groups for comparison in group.comparisons]
    # An A/A trial's level is a candidate only where there are no others.
    levels = dict.fromkeys(each.candidate for each in comparisons)
    others = dict.fromkeys(each.candidate for each in comparisons if not each.same)
    candidates = [*(others or levels)]
    if not candidates:
        raise UserError(
            f"run {stored.run.id} has no candidate beside the reference {analysis.base_text}",
            hint="measure a build and the reference in one experiment, and record that run",
        )
    if label is not None:
        _check_label(label)
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
        state = _state(analysis, base, candidate)
        series[of.id], states[state.id] = of, state
        name = label if label is not None else level_value(comparison.candidate)
        place = candidates.index(comparison.candidate)
        point = _point(comparison, candidate, analysis, (name, at_utc, place), state)
        points.append((of.id, point))
        pairs[base.id, candidate.id] = of, point
    for of, point in _counted(stored, analysis.factor, pairs):
        series[of.id] = of
        points.append((of.id, point))
    if not points:
        reasons = "\n".join(f"  {clause}" for clause in left_out)
        raise UserError(
            f"run {stored.run.id} has no ratio to {analysis.base_text}:\n{reasons}",
            hint=f"`millrace report {stored.run.id}` shows what it found",
        )
    part = HistoryPart(tuple(series.values()), tuple(states.values()), tuple(points))
    return Drawn(part, tuple(left_out))


def _counted(
    stored: StoredRun,
    factor: str,
    pairs: Mapping[tuple[str, str], tuple[SeriesRecord, PointRecord]],
) -> Iterator[tuple[SeriesRecord, PointRecord]]:
    """Yield the ratios of counted instructions, by the treatments of other points."""
    treatments = {each.id: each for each in stored.treatments}
    yielded: set[tuple[str, str]] = set()
    for (base, candidate), (of, point) in pairs.items():
        counts = compare_stored(stored, factor, treatments[base], treatments[candidate])
        if counts is None or counts.ratio is None:
            continue
        fixed = without_clients(of.fixed_factors)
        of_run = (of.experiment, of.digest, of.factor, of.reference, of.candidate)
        series = replace(
            of, id=short_digest([*of_run, fixed, INSTRUCTIONS]), fixed_factors=fixed,
            metric=INSTRUCTIONS, title="instructions per statement", unit="instructions",
            direction="lower",
        )  # fmt: skip
        if (series.id, point.label) in yielded:
            continue  # one count holds for any number of clients
        yielded.add((series.id, point.label))
        starts = min(len(counts.base.values), len(counts.candidate.values))
        ratio, low, high = counts.ratio.ratio, counts.ratio.low, counts.ratio.high
        yield series, replace(point, ratio=ratio, low=low, high=high, n_blocks=starts, log_sd=None)


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
    candidate: TreatmentAnalysis,
    analysis: RunAnalysis,
    named: tuple[str, str, int],
    state: StateRecord,
) -> PointRecord:
    estimate = comparison.estimate
    assert estimate is not None
    label, at_utc, place = named
    servers = (each.server for each in candidate.instances if each.role in MEASURED)
    return PointRecord(
        label=label,
        at_utc=at_utc,
        run_id=analysis.run.id,
        place=place,
        level=candidate.resolved[analysis.factor],
        build=next((server.build.program_sha256 for server in servers), None),
        ratio=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        n_blocks=comparison.n_blocks,
        log_sd=estimate.log_sd,
        state=state.id,
    )


def _state(
    analysis: RunAnalysis, base: TreatmentAnalysis, candidate: TreatmentAnalysis
) -> StateRecord:
    """Return the environment: host, load generator, data, the sides' builds, files and settings."""
    run = analysis.run
    facts: dict[str, Any] = dict(run.host.environment())
    facts |= {name.replace("_", " "): run.versions.get(name) for name in ("load_generator", "data")}
    facts |= {f"reference {role}": build for role, build in _builds(base).items()}
    facts |= _page_cache(run, (base, candidate))
    facts |= _configurations(run, base)
    if not _is_configuration(analysis.factor):
        facts |= _configurations(run, candidate)
    return StateRecord(short_digest([run.host.id, facts]), run.host.id, facts)


def _builds(treatment: TreatmentAnalysis) -> dict[str, str]:
    """Return each role's build: its program's digest, or an external server's own version."""
    return {
        instance.role: str(instance.server.build.program_sha256 or instance.server.version_reported)
        for instance in treatment.instances
    }


def _page_cache(run: RunRecord, treatments: Iterable[TreatmentAnalysis]) -> dict[str, str]:
    """Return the place of restored files where millrace chose memory.

    Where the experiment says it, the series has it.
    """
    chosen = {
        instance.facts.page_cache
        for treatment in treatments
        if run.spec.chosen(treatment.resolved).get("page_cache") == "auto"
        for instance in treatment.instances
    }
    return {"page cache": "warm"} if "warm" in chosen else {}


def _configurations(run: RunRecord, treatment: TreatmentAnalysis) -> dict[str, str]:
    return {
        f"configuration {level}": short_digest(
            [each.to_json() for each in run.spec.layers(str(level))]
        )
        for factor, level in treatment.resolved.items()
        if _is_configuration(factor)
    }


def _is_configuration(factor: str) -> bool:
    return factor.rpartition(".")[2] == "configuration"
