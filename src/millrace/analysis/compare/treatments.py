"""Analyze each treatment: the measurements of its trials, and the settings of its servers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from millrace.analysis.compare import conditions, latencies
from millrace.analysis.compare.background_clients import background_figures
from millrace.analysis.compare.equal_work import ComparabilityRules, trial_work
from millrace.analysis.compare.loops import loop_means
from millrace.analysis.compare.maintenance import maintenance_figures
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.treatment_model import (
    Failure,
    InstanceAnalysis,
    MetricSummary,
    SingleTrial,
    TreatmentAnalysis,
)
from millrace.analysis.steady.steadiness import steadiness
from millrace.analysis.variables import asked_against_effective
from millrace.levels import Level, level_text
from millrace.model import measurements
from millrace.model.roles import MEASURED
from millrace.model.trials import snapshot_making_s
from millrace.stats.spread import summarise
from millrace.store.records import (
    ROUND_FAILED,
    InstanceRecord,
    RunRecord,
    StoredAttempt,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)

Ended = tuple[TrialRecord, StoredAttempt]
_OF_PURPOSE = {"aa": " (A/A trial)"}


def analyse_treatments(
    stored: StoredRun,
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    factor: str,
    base: Level,
    label_factors: Sequence[str],
) -> tuple[TreatmentAnalysis, ...]:
    """Analyse every treatment in order, labelled by its levels of ``label_factors``."""
    trials: dict[str, list[TrialRecord]] = {}
    for trial in sorted(stored.trials, key=lambda trial: (trial.block, trial.position)):
        trials.setdefault(trial.treatment_id, []).append(trial)
    last = stored.last_attempts()
    return tuple(
        _analyse(
            treatment,
            trials.get(treatment.id, ()),
            last,
            metrics,
            rules,
            run=stored.run,
            factor=factor,
            base=base,
            label=" · ".join(level_text(name, treatment.levels[name]) for name in label_factors),
        )
        for treatment in sorted(stored.treatments, key=lambda treatment: treatment.position)
    )


def find_failures(stored: StoredRun, labels: Mapping[str, str]) -> tuple[Failure, ...]:
    """Return the trials whose newest ended attempt failed, in the order they were run."""
    last = stored.last_attempts()
    return tuple(
        Failure(
            treatment_id=trial.treatment_id,
            treatment=f"{labels[trial.treatment_id]}{_OF_PURPOSE.get(trial.purpose, '')}",
            trial_id=trial.id,
            block=trial.block,
            step=attempt.failed_step or "unknown",
            reason=attempt.reason or "no reason was recorded",
            log_tail=attempt.log_tail,
            unanswered_s=attempt.measured.get(measurements.UNANSWERED_S),
            base_transaction_s=attempt.measured.get(measurements.BASE_TRANSACTION_S),
        )
        for trial in sorted(stored.trials, key=lambda trial: trial.position)
        if (attempt := last.get(trial.id)) is not None and attempt.outcome == "failed"
    )


def _analyse(
    treatment: TreatmentRecord,
    planned: Sequence[TrialRecord],
    last: Mapping[str, StoredAttempt],
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    run: RunRecord,
    factor: str,
    base: Level,
    label: str,
) -> TreatmentAnalysis:
    ended: list[Ended] = [(trial, last[trial.id]) for trial in planned if trial.id in last]
    finished = [(trial, attempt) for trial, attempt in ended if attempt.outcome == "finished"]
    summaries = {
        metric.name: summary
        for metric in metrics
        if (summary := _summarise(metric, finished)) is not None
    }
    measured = [attempt for _, attempt in finished]
    recorded = (finished or ended)[-1:]
    own = [attempt for _, attempt in ended if attempt.failed_step != ROUND_FAILED]
    newest_first = [attempt.outcome for attempt in reversed(own)]
    return TreatmentAnalysis(
        id=treatment.id,
        label=label,
        level=treatment.levels[factor],
        fixed_factors={name: level for name, level in treatment.levels.items() if name != factor},
        resolved=treatment.resolved,
        is_base=treatment.levels[factor] == base,
        planned=len(planned),
        finished=len(finished),
        failed=len(ended) - len(finished),
        metrics=summaries,
        steps=_step_times(attempt for _, attempt in ended),
        sizes=_mean_sizes(measured),
        generator_wait=conditions.generator_wait(measured, run.phases),
        load_warnings=conditions.load_warnings(measured, run.phases),
        work=tuple(
            work for trial, attempt in finished if (work := trial_work(trial, attempt)) is not None
        ),
        driven=conditions.drive_conditions(measured, run),
        latencies=latencies.by_name(measured),
        steadiness=steadiness(
            finished,
            margin=rules.margin,
            by_operations=run.spec.ends_by_operations(treatment.levels),
            looks=rules.looks,
        ),
        instances=tuple(_instance(i) for _, attempt in recorded for i in attempt.instances),
        failed_last=next((n for n, of in enumerate(newest_first) if of != "failed"), len(own)),
        left_out=sum(attempt.failed_step == ROUND_FAILED for _, attempt in ended),
        trial_s=fmean(repeated_s(attempt) for _, attempt in ended) if ended else None,
        maintenance=maintenance_figures(measured),
        background_clients=background_figures(measured, run.phases.driven),
        full_disk=tuple(fact for each in measured if (fact := each.facts.full_disk) is not None),
        in_slices=any(measurements.SLICES in attempt.measured for attempt in measured),
        lag=_lag(measured[-1]) if measured else (),
        table_rows=_table_rows(measured),
        loops=loop_means(measured),
    )


def _lag(attempt: StoredAttempt) -> tuple[tuple[float, float], ...]:
    return tuple((each.t_s, each.lag_s) for each in attempt.lag if each.lag_s is not None)


def trial_s(attempt: StoredAttempt) -> float:
    """Return the duration of an attempt, all its steps, in s."""
    return max((step.started_s + step.duration_s for step in attempt.steps), default=0.0)


def repeated_s(attempt: StoredAttempt) -> float:
    """Return the duration of another attempt, in s: it restores the snapshot that this one made."""
    steps = sorted(attempt.steps, key=lambda step: step.position)
    return trial_s(attempt) - snapshot_making_s((each.name, each.started_s) for each in steps)


def _summarise(metric: Metric, finished: Sequence[Ended]) -> MetricSummary | None:
    trials = tuple(
        SingleTrial(trial.id, trial.block, trial.position, value)
        for trial, attempt in finished
        if (value := metric.value(attempt)) is not None
    )
    if not trials:
        return None
    summary = summarise([trial.value for trial in trials])
    zeros = sum(metric.is_zero(attempt) for _, attempt in finished)
    level = summary.mean * summary.n / (summary.n + zeros) if zeros else summary.geometric_mean
    return MetricSummary(metric, summary, trials, level, zeros)


def _step_times(attempts: Iterable[StoredAttempt]) -> dict[str, float]:
    durations: dict[str, list[float]] = {}
    for attempt in attempts:
        for step in sorted(attempt.steps, key=lambda step: step.position):
            if step.outcome == "finished":
                durations.setdefault(step.name, []).append(step.duration_s)
    return {name: fmean(values) for name, values in durations.items()}


def _mean_sizes(finished: Sequence[StoredAttempt]) -> dict[str, float]:
    """Return mean sizes; none of trials with maintenance, which may have dropped tables."""
    sizes: dict[str, list[float]] = {}
    for attempt in _without_maintenance(finished):
        for measurement in attempt.measurements:
            if measurement.role in MEASURED and measurements.is_size(measurement.name):
                sizes.setdefault(measurement.name, []).append(measurement.value)
    return {name: fmean(values) for name, values in sizes.items()}


def _table_rows(finished: Sequence[StoredAttempt]) -> float | None:
    name = measurements.TABLE_ROWS
    measured = [attempt.measured for attempt in _without_maintenance(finished)]
    counted = [each[name] for each in measured if name in each]
    return fmean(counted) if counted else None


def _without_maintenance(finished: Sequence[StoredAttempt]) -> Iterator[StoredAttempt]:
    name = measurements.MAINTENANCE_STATEMENTS
    return (attempt for attempt in finished if name not in attempt.measured)


def _instance(instance: InstanceRecord) -> InstanceAnalysis:
    return InstanceAnalysis(
        role=instance.role,
        server=instance.server,
        configuration=instance.configuration,
        effective=instance.effective,
        mismatches=asked_against_effective(instance.options, instance.effective),
        left_out=tuple(option for option in instance.options if option.left_out is not None),
        facts=instance.facts,
    )
