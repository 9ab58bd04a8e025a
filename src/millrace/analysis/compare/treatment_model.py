"""The measurements of a treatment's trials, and the settings of its servers: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.analysis.compare.background_clients import BackgroundFigures
from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.equal_work import TrialWork
from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.loops import LoopMeans
from millrace.analysis.compare.maintenance import MaintenanceFigures
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.analysis.variables import Mismatch
from millrace.levels import Level
from millrace.model.instance_facts import FullDiskFact, InstanceFacts
from millrace.stats.spread import Summary
from millrace.store.records import OptionRecord, ServerRecord


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
    server: ServerRecord
    configuration: str
    effective: Mapping[str, str]
    mismatches: tuple[Mismatch, ...]
    left_out: tuple[OptionRecord, ...]
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
        """Return the trials that were not steady while they were measured."""
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
