"""Analyze each treatment: the measurements of its trials, and the settings of its servers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from millrace.analysis.compare import conditions
from millrace.analysis.compare.comparability import ComparabilityRules, TrialWork, trial_work
from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.metrics import Latency, Metric, by_name
from millrace.analysis.steady.steadiness import TrialSteadiness, steadiness
from millrace.analysis.variables import Mismatch, asked_against_effective
from millrace.levels import Level, level_text
from millrace.model import measurements
from millrace.model.instance_facts import FullDiskFact, InstanceFacts
from millrace.model.measurements import PARTS, Part
from millrace.model.roles import MEASURED
from millrace.model.trials import snapshot_making_s
from millrace.stats.spread import Summary, summarise
from millrace.store import records


@dataclass(frozen=True)
class BackgroundFigures:
    """Background clients of a test, over a treatment's finished trials.

    ``rate`` is transactions a second as asked, None where the clients were as fast as they could
    be, ``throughput`` those done. ``late`` of all transactions were sent late. ``longest_s`` is the
    longest one, from its sending to its answer.
    """

    test: str
    rate: float | None
    throughput: float
    late: int
    longest_s: float


def background_figures(
    finished: Sequence[records.StoredAttempt], driven: str | None
) -> tuple[BackgroundFigures, ...]:
    """Sum up each group of background clients of finished trials; ``driven`` is their phase."""
    if driven is None:
        return ()
    duration = measurements.duration_s(driven)
    measured = [each.measured for each in finished if each.measured.get(duration, 0.0) > 0.0]
    tests = {test for each in measured for test in map(measurements.background_test, each) if test}
    return tuple(_figures(test, measured, duration) for test in sorted(tests))


def _figures(test: str, measured: Sequence[dict[str, float]], duration: str) -> BackgroundFigures:
    found = [each for each in measured if measurements.background_done(test) in each]

    def total(name: str) -> float:
        return sum(each.get(name, 0.0) for each in found)

    asked = measurements.background_scheduled(test)
    longest = measurements.background_longest_s(test)
    return BackgroundFigures(
        test=test,
        rate=total(asked) / total(duration) if any(asked in each for each in found) else None,
        throughput=total(measurements.background_done(test)) / total(duration),
        late=round(total(measurements.background_late(test))),
        longest_s=max(each.get(longest, 0.0) for each in found),
    )


def background_latency(latencies: Sequence[Latency], test: str) -> Latency | None:
    """Return the response times of a group, without a rate its service times; None if unknown."""
    found = {each.time: each for each in latencies if (each.of, each.name) == ("background", test)}
    return found.get("response") or found.get("service")


_NEEDED = frozenset(
    (
        measurements.MAINTENANCE_S,
        measurements.MAINTENANCE_STATEMENTS,
        measurements.MAINTENANCE_LONGEST_S,
        *measurements.PART_S.values(),
        *measurements.PART_TRANSACTIONS.values(),
    )
)


@dataclass(frozen=True)
class PartFigures:
    """The clients of a treatment in one part of their trials: all of its time together."""

    part: Part
    duration_s: float
    transactions: float

    @property
    def throughput(self) -> float | None:
        return self.transactions / self.duration_s if self.duration_s > 0 else None


@dataclass(frozen=True)
class MaintenanceFigures:
    """The statements that ran beside clients, over a treatment's finished trials.

    ``statement_s`` is their mean time. Of it, ``removal_s`` is that of system calls that remove,
    close or shorten files, and ``own_s`` the rest; both are None where a trial did not measure
    them, as ``removal_unknown`` says.
    """

    statements: int
    statement_s: float
    longest_s: float
    removal_s: float | None
    own_s: float | None
    removal_unknown: str | None
    parts: tuple[PartFigures, ...]


def maintenance_figures(finished: Sequence[records.StoredAttempt]) -> MaintenanceFigures | None:
    """Sum up the maintenance of finished trials; None where there was none."""
    found = [each for each in finished if each.measured.keys() >= _NEEDED]
    measured = [each.measured for each in found]
    statements = sum(each[measurements.MAINTENANCE_STATEMENTS] for each in measured)
    if not statements:
        return None

    def mean_s(name: str) -> float | None:
        values = [each[name] for each in measured if name in each]
        return sum(values) / statements if len(values) == len(measured) else None

    return MaintenanceFigures(
        statements=round(statements),
        statement_s=sum(each[measurements.MAINTENANCE_S] for each in measured) / statements,
        longest_s=max(each[measurements.MAINTENANCE_LONGEST_S] for each in measured),
        removal_s=mean_s(measurements.FILE_REMOVAL_S),
        own_s=mean_s(measurements.MAINTENANCE_OWN_S),
        removal_unknown=next(
            (why for each in found if (why := each.facts.file_removal_unknown)), None
        ),
        parts=tuple(_part(part, measured) for part in PARTS),
    )


def _part(part: Part, measured: Sequence[dict[str, float]]) -> PartFigures:
    duration_s = sum(each[measurements.PART_S[part]] for each in measured)
    transactions = sum(each[measurements.PART_TRANSACTIONS[part]] for each in measured)
    return PartFigures(part, duration_s, transactions)


_SHORTEST_S = 1e-6  # of a loop that clients can have driven


@dataclass(frozen=True)
class LoopMeans:
    """The means of a loop over a treatment's finished trials, for ``report``.

    ``restarted_cold`` is in how many of the ``trials`` the server started again before it. The
    bytes are those of the data directory at its end, None for attached servers. ``latencies`` are
    those of the workload's transactions, of all trials together; only ``shown`` loops have them.
    """

    loop: int
    trials: int
    throughput: float
    restarted_cold: int
    apparent_bytes: float | None
    allocated_bytes: float | None
    latencies: tuple[Latency, ...] = ()


def loop_means(finished: Sequence[records.StoredAttempt]) -> tuple[LoopMeans, ...]:
    """Return the loops that all finished trials have; none where these had one loop each."""
    trials = [attempt for attempt in finished if attempt.loops]
    most = min((len(attempt.loops) for attempt in trials), default=0)
    return tuple(
        _summary(trials, loop, is_shown=loop in shown(most)) for loop in range(1, most + 1)
    )


def shown(most: int) -> tuple[int, ...]:
    """Return the loops that tables show: powers of two, the half of ``most`` and the last one."""
    powers = (1 << exponent for exponent in range(most.bit_length()))
    return tuple(sorted({*powers, most // 2, most} - {0}))


def _summary(trials: Sequence[records.StoredAttempt], loop: int, *, is_shown: bool) -> LoopMeans:
    loops = [attempt.loops[loop - 1] for attempt in trials]
    return LoopMeans(
        loop=loop,
        trials=len(loops),
        throughput=fmean(
            each.transactions / each.duration_s if each.duration_s >= _SHORTEST_S else 0.0
            for each in loops
        ),
        restarted_cold=sum(each.restarted_cold for each in loops),
        apparent_bytes=_mean(each.apparent_bytes for each in loops),
        allocated_bytes=_mean(each.allocated_bytes for each in loops),
        latencies=by_name([_of_loop(attempt, loop) for attempt in trials]) if is_shown else (),
    )


def _of_loop(attempt: records.StoredAttempt, loop: int) -> records.StoredAttempt:
    """Return an attempt with the histograms of one of its loops."""
    histograms = (
        records.HistogramRecord(
            "loops", "transaction", e.name, "service", e.encoded, e.count, e.sum_s
        )
        for e in attempt.loops[loop - 1].operations
    )
    return replace(attempt, histograms=tuple(histograms))


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


@dataclass(frozen=True)
class SingleTrial:
    """One trial's value of one metric; ``block`` and ``position`` count from 0."""

    trial_id: str
    block: int
    position: int
    value: float


@dataclass(frozen=True)
class MetricSummary:
    """One metric over a treatment's finished trials; ``trials`` in the order of their blocks.

    ``level`` is the value that reports show: the geometric mean of the trials. Where base and
    candidate do not have the same blocks, the candidate's is the base's times the ratio, so that no
    value falls where its ratio rises. ``trials`` lacks the ``zeros`` trials with an amount of 0,
    which no ratio can take; where there are any, the level is the mean of all trials.
    """

    metric: Metric
    summary: Summary
    trials: tuple[SingleTrial, ...]
    level: float
    zeros: int = 0


@dataclass(frozen=True)
class Failure:
    """A trial that failed: in which step, why, and the end of the server's own log.

    ``unanswered_s`` is how long a transaction was under way when the trial was given up, and
    ``base_transaction_s`` how long those of the base took in the same round; None where unknown.
    """

    treatment_id: str
    treatment: str
    trial_id: str
    block: int
    step: str
    reason: str
    log_tail: str | None
    unanswered_s: float | None = None
    base_transaction_s: float | None = None


@dataclass(frozen=True)
class InstanceAnalysis:
    """The settings of one role's server, with options that are not effective or left out."""

    role: str
    server: records.ServerRecord
    configuration: str
    effective: Mapping[str, str]
    mismatches: tuple[Mismatch, ...]
    left_out: tuple[records.OptionRecord, ...]
    facts: InstanceFacts

    @property
    def limits(self) -> tuple[str, ...]:
        """Name the limits of control and observation of an attached server, a clause each."""
        return self.facts.limits or ()


@dataclass(frozen=True)
class TreatmentAnalysis:
    """One treatment: its trials, what they measured, and how its servers were set.

    ``level`` is its level of the compared factor, ``fixed_factors`` those of the other factors.
    ``metrics`` lacks those without a finished trial; ``steps`` are mean times in s over the trials
    that finished the step, ``sizes`` means in bytes by measurement name, of tables that had
    ``table_rows``, None where nothing counted them. ``generator_wait`` is the fraction of the load
    in which the sender waited for rows, ``load_warnings`` the mean number of warnings of a load;
    None where nothing measured them. ``work``, ``driven``, ``latencies`` and ``steadiness`` are
    empty or None where no clients were driven, ``maintenance`` is None where no statements ran
    meanwhile, ``background_clients`` empty where there were none. ``full_disk`` is what its server
    did in each finished trial that filled its disk. ``instances`` are as its last finished (or
    failed) trial recorded them. ``failed_last`` is how many of its newest trials failed, one after
    the other; ``trial_s`` how long a trial takes. ``left_out`` of the ``failed`` trials did not
    fail themselves, but another one of their round. ``in_slices`` is whether its server took turns
    with those of the other treatments of its group. ``lag`` is that of its replica over time, as
    (seconds since the first sample, lag in s), in its newest finished trial. ``loops`` are those of
    its trials where they had several; what else these measured is of the last one.
    """

    id: str
    label: str
    level: Level
    fixed_factors: Mapping[str, Level]
    resolved: Mapping[str, Level]
    is_base: bool
    planned: int
    finished: int
    failed: int
    metrics: Mapping[str, MetricSummary]
    steps: Mapping[str, float]
    sizes: Mapping[str, float]
    generator_wait: float | None
    load_warnings: float | None
    work: tuple[TrialWork, ...]
    driven: DriveConditions | None
    latencies: tuple[Latency, ...]
    steadiness: tuple[TrialSteadiness, ...]
    instances: tuple[InstanceAnalysis, ...]
    failed_last: int = 0
    left_out: int = 0
    trial_s: float | None = None
    in_slices: bool = False
    lag: tuple[tuple[float, float], ...] = ()
    table_rows: float | None = None
    maintenance: MaintenanceFigures | None = None
    background_clients: tuple[BackgroundFigures, ...] = ()
    loops: tuple[LoopMeans, ...] = ()
    full_disk: tuple[FullDiskFact, ...] = ()

    @property
    def open(self) -> int:
        return self.planned - self.finished - self.failed

    @property
    def unsteady_trials(self) -> tuple[TrialSteadiness, ...]:
        return tuple(trial for trial in self.steadiness if trial.state == "unsteady")

    def until(self, block: int) -> "TreatmentAnalysis":
        """Return the treatment with what comparisons use of its trials, up to this block."""
        metrics = {
            name: replace(found, trials=kept)
            for name, found in self.metrics.items()
            if (kept := tuple(trial for trial in found.trials if trial.block <= block))
        }
        return replace(
            self,
            metrics=metrics,
            work=tuple(work for work in self.work if work.block <= block),
            steadiness=tuple(trial for trial in self.steadiness if trial.block <= block),
        )

    def by_block(self, metric: str) -> dict[int, float]:
        """Return the values of the finished trials in the metric of this name, by block."""
        found = self.metrics.get(metric)
        return {trial.block: trial.value for trial in (found.trials if found else ())}


Ended = tuple[records.TrialRecord, records.StoredAttempt]
_OF_PURPOSE = {"aa": " (A/A trial)"}


def analyse_treatments(
    stored: records.StoredRun,
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    factor: str,
    base: Level,
    label_factors: Sequence[str],
) -> tuple[TreatmentAnalysis, ...]:
    """Analyse every treatment in order, labelled by its levels of ``label_factors``."""
    trials: dict[str, list[records.TrialRecord]] = {}
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


def find_failures(stored: records.StoredRun, labels: Mapping[str, str]) -> tuple[Failure, ...]:
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
    treatment: records.TreatmentRecord,
    planned: Sequence[records.TrialRecord],
    last: Mapping[str, records.StoredAttempt],
    metrics: Sequence[Metric],
    rules: ComparabilityRules,
    *,
    run: records.RunRecord,
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
    own = [attempt for _, attempt in ended if attempt.failed_step != records.ROUND_FAILED]
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
        latencies=by_name(measured),
        steadiness=steadiness(
            finished,
            margin=rules.margin,
            by_operations=run.spec.ends_by_operations(treatment.levels),
            looks=rules.looks,
        ),
        instances=tuple(_instance(i) for _, attempt in recorded for i in attempt.instances),
        failed_last=next((n for n, of in enumerate(newest_first) if of != "failed"), len(own)),
        left_out=sum(attempt.failed_step == records.ROUND_FAILED for _, attempt in ended),
        trial_s=fmean(repeated_s(attempt) for _, attempt in ended) if ended else None,
        maintenance=maintenance_figures(measured),
        background_clients=background_figures(measured, run.phases.driven),
        full_disk=tuple(fact for each in measured if (fact := each.facts.full_disk) is not None),
        in_slices=any(measurements.SLICES in attempt.measured for attempt in measured),
        lag=tuple((s.t_s, s.lag_s) for a in measured[-1:] for s in a.lag if s.lag_s is not None),
        table_rows=_table_rows(measured),
        loops=loop_means(measured),
    )


def trial_s(attempt: records.StoredAttempt) -> float:
    """Return the duration of an attempt, all its steps, in s."""
    return max((step.started_s + step.duration_s for step in attempt.steps), default=0.0)


def repeated_s(attempt: records.StoredAttempt) -> float:
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


def _step_times(attempts: Iterable[records.StoredAttempt]) -> dict[str, float]:
    durations: dict[str, list[float]] = {}
    for attempt in attempts:
        for step in sorted(attempt.steps, key=lambda step: step.position):
            if step.outcome == "finished":
                durations.setdefault(step.name, []).append(step.duration_s)
    return {name: fmean(values) for name, values in durations.items()}


def _mean_sizes(finished: Sequence[records.StoredAttempt]) -> dict[str, float]:
    """Return mean sizes; none of trials with maintenance, which may have dropped tables."""
    sizes: dict[str, list[float]] = {}
    for attempt in _without_maintenance(finished):
        for measurement in attempt.measurements:
            if measurement.role in MEASURED and measurements.is_size(measurement.name):
                sizes.setdefault(measurement.name, []).append(measurement.value)
    return {name: fmean(values) for name, values in sizes.items()}


def _table_rows(finished: Sequence[records.StoredAttempt]) -> float | None:
    name = measurements.TABLE_ROWS
    measured = [attempt.measured for attempt in _without_maintenance(finished)]
    counted = [each[name] for each in measured if name in each]
    return fmean(counted) if counted else None


def _without_maintenance(
    finished: Sequence[records.StoredAttempt],
) -> Iterator[records.StoredAttempt]:
    name = measurements.MAINTENANCE_STATEMENTS
    return (attempt for attempt in finished if name not in attempt.measured)


def _instance(instance: records.InstanceRecord) -> InstanceAnalysis:
    return InstanceAnalysis(
        role=instance.role,
        server=instance.server,
        configuration=instance.configuration,
        effective=instance.effective,
        mismatches=asked_against_effective(instance.options, instance.effective),
        left_out=tuple(option for option in instance.options if option.left_out is not None),
        facts=instance.facts,
    )
