"""Record a run in histories: its ratios to a reference build that was measured in the same blocks.

Ratios to a build that never changes stay the same while the host changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from millrace.analysis.compare.compare_run import base_level, compare_run
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.treatments import InstanceAnalysis
from millrace.analysis.counts.compare_counts import compare_stored, counted_run
from millrace.errors import UserError
from millrace.levels import Level, level_text, level_value, without_clients
from millrace.model.documents import short_digest
from millrace.model.instruction_counts import MARGIN
from millrace.model.measurements import INSTRUCTIONS
from millrace.model.roles import MEASURED
from millrace.stats.ratio import RatioEstimate
from millrace.store.history_records import HistoryPart, PointRecord, SeriesRecord, StateRecord
from millrace.store.records import InstanceRecord, RunRecord, StoredRun, TreatmentRecord

LONGEST_LABEL = 255

_INSTRUCTIONS = Metric(
    name=INSTRUCTIONS,
    title="instructions per statement",
    unit="instructions",
    direction="lower",
    numerator=(INSTRUCTIONS,),
)


@dataclass(frozen=True)
class Side:
    """A base or a candidate: its levels, with aliases replaced, and its servers."""

    resolved: Mapping[str, Level]
    instances: Sequence[InstanceAnalysis | InstanceRecord]

    @property
    def build(self) -> str | None:
        """The SHA-256 of the program that figures are about, where it is known."""
        servers = (each.server for each in self.instances if each.role in MEASURED)
        return next((server.build.program_sha256 for server in servers), None)


def environment(run: RunRecord, factor: str, base: Side, candidate: Side) -> StateRecord:
    """Return the environment: host, tools, data, the sides' builds, files and settings."""
    facts = run.host.environment()
    facts |= {name.replace("_", " "): run.versions.get(name) for name in ("load_generator", "data")}
    if "valgrind" in run.versions:
        facts["valgrind"] = run.versions["valgrind"]
    facts |= {f"reference {role}": build for role, build in _builds(base).items()}
    facts |= _page_cache(run, (base, candidate))
    facts |= _configurations(run, base)
    if not _is_configuration(factor):
        facts |= _configurations(run, candidate)
    return StateRecord(short_digest([run.host.id, facts]), run.host.id, facts)


def _builds(side: Side) -> dict[str, str]:
    """Return each role's build: its program's digest, or an external server's own version."""
    return {
        instance.role: str(instance.server.build.program_sha256 or instance.server.version_reported)
        for instance in side.instances
    }


def _page_cache(run: RunRecord, sides: Iterable[Side]) -> dict[str, str]:
    """Return the place of restored files where millrace chose memory.

    Where the experiment says it, the series has it.
    """
    chosen = {
        instance.facts.page_cache
        for side in sides
        if run.spec.chosen(side.resolved).get("page_cache") == "auto"
        for instance in side.instances
    }
    return {"page cache": "warm"} if "warm" in chosen else {}


def _configurations(run: RunRecord, side: Side) -> dict[str, str]:
    return {
        f"configuration {level}": short_digest(
            [each.to_json() for each in run.spec.layers(str(level))]
        )
        for factor, level in side.resolved.items()
        if _is_configuration(factor)
    }


def _is_configuration(factor: str) -> bool:
    return factor.rpartition(".")[2] == "configuration"


@dataclass(frozen=True)
class Drawn:
    """The points of a run, and what has none and why, a clause each."""

    part: HistoryPart
    left_out: tuple[str, ...]


class _Drawing:
    """The points of a run as far as they are found, with all that they refer to."""

    def __init__(self, run: RunRecord, factor: str, reference: Level) -> None:
        self.run, self.factor, self.reference = run, factor, reference
        self.series: dict[str, SeriesRecord] = {}
        self.states: dict[str, StateRecord] = {}
        self.points: list[tuple[str, PointRecord]] = []
        self.left_out: dict[str, None] = {}

    def add(self, series: SeriesRecord, point: PointRecord) -> None:
        self.series[series.id] = series
        self.points.append((series.id, point))

    def state(self, base: Side, candidate: Side) -> str:
        """Return the id of the environment of both sides."""
        found = environment(self.run, self.factor, base, candidate)
        self.states[found.id] = found
        return found.id

    def series_of(
        self, metric: Metric, candidate: Level | None, fixed: Mapping[str, Level], margin: float
    ) -> SeriesRecord:
        run, held = self.run, dict(fixed)
        of_run = (run.name, run.digest, self.factor, self.reference, candidate)
        return SeriesRecord(
            id=short_digest([*of_run, held, metric.name]),
            experiment=run.name,
            digest=run.digest,
            factor=self.factor,
            reference=self.reference,
            candidate=candidate,
            fixed_factors=held,
            metric=metric.name,
            title=metric.title,
            unit=metric.unit,
            direction=metric.direction,
            margin=margin,
        )

    def counted_series(self, candidate: Level | None, fixed: Mapping[str, Level]) -> SeriesRecord:
        return self.series_of(_INSTRUCTIONS, candidate, without_clients(fixed), MARGIN)

    def drawn(self) -> Drawn:
        """Return the points; raise UserError where there are none."""
        base_text = level_text(self.factor, self.reference)
        if not self.points and not self.left_out:
            raise UserError(
                f"run {self.run.id} has no candidate beside the reference {base_text}",
                hint="measure a build and the reference in one experiment, and record that run",
            )
        if not self.points:
            reasons = "\n".join(f"  {clause}" for clause in self.left_out)
            raise UserError(
                f"run {self.run.id} has no ratio to {base_text}:\n{reasons}",
                hint=f"`millrace report {self.run.id}` shows what it found",
            )
        part = HistoryPart(
            tuple(self.series.values()), tuple(self.states.values()), tuple(self.points)
        )
        return Drawn(part, tuple(self.left_out))


def points_of(stored: StoredRun, *, reference: str | None, label: str | None, at_utc: str) -> Drawn:
    """Return the run's ratios to the level ``reference`` (by default its base), by their series.

    With a ``label`` each candidate level is a series of its own where there are several; without
    one their levels are the labels. Raise UserError for a run without a ratio, or an invalid label.
    """
    if label is not None and (
        not label.strip() or len(label) > LONGEST_LABEL or not label.isprintable()
    ):
        raise UserError(
            f"{label!r} cannot be the label of a point",
            hint=f"give a version or a commit: one line, {LONGEST_LABEL} characters at most",
        )
    find = _measured if stored.run.spec.counts is None else _counted
    return find(stored, reference, label, at_utc).drawn()


def _measured(stored: StoredRun, reference: str | None, label: str | None, at_utc: str) -> _Drawing:
    analysis = compare_run(stored, base=reference)
    found = _Drawing(stored.run, analysis.factor, analysis.base)
    comparisons = [comparison for group in analysis.groups for comparison in group.comparisons]
    # An A/A trial's level is a candidate only without others.
    levels = dict.fromkeys(each.candidate for each in comparisons)
    others = dict.fromkeys(each.candidate for each in comparisons if not each.same)
    candidates = [*(others or levels)]
    analyses = {each.id: each for each in analysis.treatments}
    pairs: dict[tuple[str, str], tuple[SeriesRecord, PointRecord]] = {}
    for comparison in comparisons:
        estimate = comparison.estimate
        if comparison.candidate not in candidates:
            continue
        why = comparison.unequal or comparison.unsteady
        if estimate is None:
            why = comparison.reason.partition("\n")[0]
        if why or estimate is None:
            found.left_out[f"{analyses[comparison.candidate_id].label}: {why}"] = None
            continue
        base, candidate = (
            Side(analyses[each].resolved, analyses[each].instances)
            for each in (comparison.base_id, comparison.candidate_id)
        )
        own = comparison.candidate if label is not None and len(candidates) > 1 else None
        series = found.series_of(
            comparison.metric, own, comparison.fixed_factors, stored.run.margin
        )
        point = PointRecord(
            label=label if label is not None else level_value(comparison.candidate),
            at_utc=at_utc,
            run_id=stored.run.id,
            place=candidates.index(comparison.candidate),
            level=candidate.resolved[analysis.factor],
            build=candidate.build,
            ratio=estimate.ratio,
            low=estimate.low,
            high=estimate.high,
            n_blocks=comparison.n_blocks,
            log_sd=estimate.log_sd,
            state=found.state(base, candidate),
        )
        found.add(series, point)
        pairs[comparison.base_id, comparison.candidate_id] = series, point
    _add_counts(found, stored, pairs)
    return found


def _add_counts(
    found: _Drawing,
    stored: StoredRun,
    pairs: Mapping[tuple[str, str], tuple[SeriesRecord, PointRecord]],
) -> None:
    """Add the ratios of instructions that a run counted beside what it measured.

    ``pairs`` are the measured points by the ids of their treatments.
    """
    treatments = {each.id: each for each in stored.treatments}
    added: set[tuple[str, str]] = set()
    for (base, candidate), (of, point) in pairs.items():
        counts = compare_stored(stored, found.factor, treatments[base], treatments[candidate])
        if counts is None or counts.ratio is None:
            continue
        series = found.counted_series(of.candidate, of.fixed_factors)
        if (series.id, point.label) not in added:  # one count holds for any number of clients
            added.add((series.id, point.label))
            found.add(series, replace(point, **_figures(counts.ratio)))


def _counted(stored: StoredRun, reference: str | None, label: str | None, at_utc: str) -> _Drawing:
    """Return the points of a run that counts and measures nothing else."""
    factor = stored.run.spec.compare.factor
    reference_level = base_level(stored.run.spec, reference)
    found = _Drawing(stored.run, factor, reference_level)
    sides = _sides(stored)
    candidates = _candidates(stored, factor, reference_level)
    for group in counted_run(stored, reference_level).groups:
        for counts in group.comparisons:
            level = counts.candidate.levels[factor]
            if level not in candidates:
                continue
            if counts.ratio is None:
                without = (each for each in (counts.base, counts.candidate) if each.refusal)
                found.left_out |= {f"{each.label}: {each.refusal}": None for each in without}
                continue
            fixed = {name: of for name, of in counts.base.levels.items() if name != factor}
            own = level if label is not None and len(candidates) > 1 else None
            base, candidate = (sides[_key(each.levels)] for each in (counts.base, counts.candidate))
            point = PointRecord(
                label=level_value(level) if label is None else label,
                at_utc=at_utc,
                run_id=stored.run.id,
                place=candidates.index(level),
                level=candidate.resolved[factor],
                build=candidate.build,
                state=found.state(base, candidate),
                **_figures(counts.ratio),
            )
            found.add(found.counted_series(own, fixed), point)
    return found


class _Figures(TypedDict):
    """The fields of a point that come from counts."""

    ratio: float
    low: float | None
    high: float | None
    n_blocks: int
    log_sd: None


def _figures(ratio: RatioEstimate) -> _Figures:
    return _Figures(
        ratio=ratio.ratio, low=ratio.low, high=ratio.high, n_blocks=ratio.n_pairs, log_sd=None
    )


def _candidates(stored: StoredRun, factor: str, reference: Level) -> list[Level]:
    """Return the levels that are compared; without others, the reference again."""
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
