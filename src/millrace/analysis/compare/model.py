"""What the analysis of a run says: plain values, read by the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from millrace.analysis.compare.comparability import Refused
from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.equal_work import TrialWork
from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.explain.variables import Mismatch, VariablesDiff
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.levels import Level, level_text
from millrace.stats import Looks, RatioEstimate, Summary
from millrace.store.records import OptionRecord, RunRecord, ServerRecord, TrialRecord

Verdict = Literal["regression", "improvement", "equivalent", "inconclusive", "failed"]


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
    candidate do not have the same blocks, the candidate's is the base's times the ratio, which is
    over the blocks that both have: adjusted for the blocks it lacks, so that no value falls where
    its ratio rises.
    """

    metric: Metric
    summary: Summary
    trials: tuple[SingleTrial, ...]
    level: float


@dataclass(frozen=True)
class StepTime:
    """Mean time of a step over the trials that finished it."""

    name: str
    mean_s: float


@dataclass(frozen=True)
class Failure:
    """A trial that failed: in which step, why, and the end of the server's own log."""

    treatment_id: str
    treatment: str
    trial_id: str
    block: int
    step: str
    reason: str
    log_tail: str | None


@dataclass(frozen=True)
class TreatmentAnalysis:
    """One treatment: its trials, what they measured, and how its servers were set.

    ``level`` is its level of the compared factor, ``held`` those of the other factors. ``metrics``
    lacks those without a finished trial; ``sizes`` are means in bytes by measurement name.
    ``generator_wait`` is the fraction of the load in which the sender waited for rows to be made,
    ``load_warnings`` the mean number of warnings of a load; None where nothing measured them.
    ``work`` is what each finished trial's clients did, ``driven`` under which conditions,
    ``latencies`` how long it took over all of them, ``steadiness`` whether each showed a steady
    state; empty or None where no clients were driven.
    ``instances`` are as its last finished (or failed) trial recorded them. ``failed_last`` is how
    many of its newest trials failed, one after the other; ``trial_s`` how long a trial takes.
    ``left_out`` of the ``failed`` trials did not fail themselves, but the one beside them.
    """

    id: str
    label: str
    level: Level
    held: Mapping[str, Level]
    resolved: Mapping[str, Level]
    is_base: bool
    planned: int
    finished: int
    failed: int
    metrics: Mapping[str, MetricSummary]
    steps: tuple[StepTime, ...]
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

    @property
    def open(self) -> int:
        """Trials that have not ended yet."""
        return self.planned - self.finished - self.failed


@dataclass(frozen=True)
class InstanceAnalysis:
    """How one role's server was set: what was asked and is not so, and what was left out."""

    role: str
    server: ServerRecord
    configuration: str
    effective: Mapping[str, str]
    mismatches: tuple[Mismatch, ...]
    left_out: tuple[OptionRecord, ...]
    facts: Mapping[str, Any]

    @property
    def limits(self) -> tuple[str, ...]:
        """What cannot be controlled or observed there, a clause each (an attached server)."""
        return tuple(self.facts.get("limits") or ())


@dataclass(frozen=True)
class Comparison:
    """Two treatments side by side in one metric: effect, interval, verdict.

    ``estimate`` is candidate / base, None without a pair; ``n_blocks`` is the number of blocks in
    which both finished. ``verdict`` is None where there are too few, and ``reason`` says so.
    ``minimum_detectable`` is the smallest relative difference (a fraction) these blocks would
    detect, ``blocks_wanted`` how many would detect one of the margin, both with power 0.8; None
    where that cannot be told. ``same`` marks a comparison of a thing with itself (A/A).
    ``base_failed`` and ``candidate_failed`` count failed trials; ``lost`` says them in words, which
    also end the first line of ``reason``, and is empty without any. ``only_base_failed`` tells a
    verdict of failed that is the base's alone. ``unequal`` says in which way the two did not do the
    same work, or are not shown to have done, in any metric, ``unsteady`` that trials were not in a
    steady state, and what to do; both are empty where nothing speaks against the verdict;
    ``refused_for_good`` is the one which more blocks would not change, by what holds at any look.
    ``adjusted_p`` is the p-value among all comparisons of the metric that the run makes, None for
    one that makes no claim (``discoveries``).
    """

    base_id: str
    candidate_id: str
    base: Level
    candidate: Level
    held: Mapping[str, Level]
    metric: Metric
    estimate: RatioEstimate | None
    n_blocks: int
    verdict: Verdict | None
    reason: str
    base_failed: int
    candidate_failed: int
    lost: str
    unequal: str
    unsteady: str
    refused_for_good: Refused | None
    only_base_failed: bool
    minimum_detectable: float | None
    blocks_wanted: int | None
    same: bool
    adjusted_p: float | None = None

    @property
    def may_be_chance(self) -> bool:
        """Whether a regression or improvement is one by itself alone: among so many comparisons it
        may be one of those that differ by chance."""
        if self.estimate is None or self.adjusted_p is None:
            return False
        is_difference = self.verdict in ("regression", "improvement")
        return is_difference and self.adjusted_p > 1 - self.estimate.confidence


@dataclass(frozen=True)
class Group:
    """The treatments that share the levels of all held factors, and their comparisons.

    ``treatments`` are in the experiment's order; ``comparisons`` hold every metric.
    """

    held: Mapping[str, Level]
    label: str
    treatments: tuple[TreatmentAnalysis, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class VariablesComparison:
    """The effective variables of the base (A) and a candidate (B) of one group, in one role."""

    group: str
    role: str
    base: str
    candidate: str
    diff: VariablesDiff


@dataclass(frozen=True)
class Control:
    """The base of a group against itself, in the headline metric: trials made once more in a block,
    over those of the same block. ``estimate`` is None without such a pair."""

    base_id: str
    held: Mapping[str, Level]
    label: str
    planned: int
    finished: int
    estimate: RatioEstimate | None


@dataclass(frozen=True)
class Controls:
    """The controls of a run by group, and all their pairs together (``estimate``)."""

    groups: tuple[Control, ...]
    estimate: RatioEstimate | None

    @property
    def excludes_1(self) -> bool:
        """Whether the host calls the base different from itself."""
        found = self.estimate
        return (
            found is not None
            and found.low is not None
            and found.high is not None
            and not found.low <= 1 <= found.high
        )


@dataclass(frozen=True)
class QuotedCalibration:
    """A calibration in a line. ``age_s`` is from the end of its last trial to when the report is
    made. ``false`` of ``verdicts`` were false, a rate from ``low`` to ``high`` (95 %; None without
    a verdict), and ``refused`` of them were none on speed. ``smallest`` is the smallest change seen
    in ``blocks`` blocks, a fraction, in the quietest and in the noisiest group; None where it
    cannot be told. ``stale`` says why it tells little about the run, a clause each."""

    run: str
    experiment: str
    is_of_experiment: bool
    ended_utc: str
    age_s: float
    verdicts: int
    false: int
    refused: int
    low: float | None
    high: float | None
    smallest: tuple[float, float] | None
    blocks: int
    stale: tuple[str, ...]


@dataclass(frozen=True)
class RunAnalysis:
    """Everything a report says about one run.

    ``headline`` is the metric of the answer; ``time`` is the time it divides by, if it is a rate.
    ``factor`` is the compared one, ``base`` its base level; ``constants`` are factors with a single
    level. ``groups`` hold the treatments and comparisons; ``trials`` are in the order of the plan,
    those that measure and controls, and so are ``failures``. ``looks`` is how many blocks had a
    result each time more were added; ``holds_for`` which looks the intervals hold for.
    ``controls`` are the base against itself, ``spent_s`` how long all of ``trials`` took,
    ``made_again`` how many had failed and were made again when all had ended.
    ``calibrations`` is the one of the host that is quoted, empty where there is none, None where
    nobody looked for one. ``together`` is the least share of a pair's measured time in which both
    were measured, None where trials took turns.
    """

    run: RunRecord
    margin: float
    confidence: float
    factor: str
    base: Level
    constants: Mapping[str, Level]
    metrics: tuple[Metric, ...]
    headline: Metric
    time: Metric | None
    groups: tuple[Group, ...]
    variables: tuple[VariablesComparison, ...]
    servers: tuple[ServerRecord, ...]
    failures: tuple[Failure, ...]
    trials: tuple[TrialRecord, ...]
    looks: tuple[int, ...]
    holds_for: Looks = "once"
    controls: Controls | None = None
    spent_s: float = 0.0
    made_again: int = 0
    calibrations: tuple[QuotedCalibration, ...] | None = None
    together: float | None = None

    @property
    def base_text(self) -> str:
        """The base as it stands in sentences."""
        return level_text(self.factor, self.base)

    @property
    def treatments(self) -> tuple[TreatmentAnalysis, ...]:
        return tuple(treatment for group in self.groups for treatment in group.treatments)

    @property
    def limits(self) -> Mapping[str, tuple[str, ...]]:
        """What cannot be controlled or observed, by the name of each server that has such."""
        return {
            instance.server.name: instance.limits
            for treatment in self.treatments
            for instance in treatment.instances
            if instance.limits
        }

    def comparisons(self, metric: Metric | None = None) -> tuple[Comparison, ...]:
        """The comparisons in one metric (the headline unless named), group by group."""
        wanted = metric or self.headline
        return tuple(
            comparison
            for group in self.groups
            for comparison in group.comparisons
            if comparison.metric.name == wanted.name
        )


def varied_factors(analysis: RunAnalysis) -> list[str]:
    """Return the held factors with more than one level, in the experiment's order."""
    held = analysis.groups[0].held if analysis.groups else {}
    return [name for name in held if name not in analysis.constants]
