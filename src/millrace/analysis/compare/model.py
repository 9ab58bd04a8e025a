"""The analysis of a run: plain values, read by the reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.certainty import Certainty
from millrace.analysis.compare.comparability import Incomparability, SkippedShares
from millrace.analysis.compare.conditions import DisturbedBlocks
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.stalls import UnequalStalls
from millrace.analysis.compare.treatments import Failure, TreatmentAnalysis
from millrace.analysis.counts.model import CountComparison
from millrace.analysis.variables import VariablesDiff
from millrace.levels import Level, level_text
from millrace.stats.effects import Effect
from millrace.stats.ratio import Looks, RatioEstimate
from millrace.store.records import RunRecord, ServerRecord, TrialRecord

Verdict = Literal["regression", "improvement", "equivalent", "inconclusive", "failed"]
DIFFERENCES: tuple[Verdict, ...] = ("regression", "improvement")
ComparisonState = Literal["decided", "failing", "unequal", "unsteady", "open"]
Ending = Literal["closed", "blocks", "time"]


@dataclass(frozen=True)
class Comparison:
    """Two treatments side by side in one metric: effect, interval, verdict.

    ``estimate`` is candidate / base, None without a pair; ``n_blocks`` is the number of blocks in
    which both finished. ``verdict`` is None where there are too few, and ``reason`` says so.
    ``minimum_detectable`` is the smallest relative difference (a fraction) these blocks would
    detect, ``blocks_wanted`` how many would detect one of the margin, both with power 0.8; None
    where that is unknown. ``agreeing_blocks`` counts the blocks whose own ratio is on the
    estimate's side of 1. ``more_blocks`` is how many further ones would settle an ``undecided``
    comparison if it is as it looks, among all of its metric; None where that is unknown, or above
    10 000. ``same`` marks an A/A comparison. ``lost`` says the failed trials in
    words, which also end the first line of ``reason``. ``only_base_failed`` tells a verdict of
    failed that is the base's alone. ``unequal`` says in which way the two did not do the same work,
    or are not shown to have done, in any metric, ``unsteady`` that trials were not in a steady
    state; both are empty where nothing speaks against the verdict; ``permanently_incomparable`` is
    the one which more blocks would not change. ``skipped`` are the skipped shares of an open loop's
    schedule where these are the verdict, although work was unequal. ``adjusted_p`` is the p-value
    among all comparisons of the metric, None for one that makes no claim (``false_discoveries``).
    ``slower_at_least`` is how many times slower a candidate is at least that has no result because
    a transaction did not end in time; None for all others.
    """

    base_id: str
    candidate_id: str
    base: Level
    candidate: Level
    fixed_factors: Mapping[str, Level]
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
    permanently_incomparable: Incomparability | None
    only_base_failed: bool
    minimum_detectable: float | None
    blocks_wanted: int | None
    same: bool
    agreeing_blocks: int = 0
    adjusted_p: float | None = None
    more_blocks: int | None = None
    skipped: SkippedShares | None = None
    slower_at_least: float | None = None

    @property
    def not_significant(self) -> bool:
        """Return whether a difference does not survive the correction for their number."""
        if self.estimate is None or self.adjusted_p is None:
            return False
        is_difference = self.verdict in DIFFERENCES
        return is_difference and self.adjusted_p > 1 - self.estimate.confidence

    @property
    def undecided(self) -> bool:
        """Return whether nothing but too little evidence keeps it from a verdict."""
        comparable = not (self.unequal or self.unsteady)
        return self.not_significant or (self.verdict == "inconclusive" and comparable)

    @property
    def lacks_verdict(self) -> bool:
        """Return whether it has too few blocks, or cannot be compared for another reason."""
        return self.verdict is None or (self.verdict == "inconclusive" and not self.undecided)

    def is_beyond(self, margin: float) -> bool:
        return self.estimate is not None and self.estimate.is_beyond(margin)


@dataclass(frozen=True)
class Group:
    """The treatments of the same held factors, and their comparisons in every metric."""

    fixed_factors: Mapping[str, Level]
    label: str
    treatments: tuple[TreatmentAnalysis, ...]
    comparisons: tuple[Comparison, ...]

    def in_metric(self, metric: Metric) -> tuple[Comparison, ...]:
        return tuple(each for each in self.comparisons if each.metric.name == metric.name)


@dataclass(frozen=True)
class VariablesComparison:
    """The effective variables of the base (A) and a candidate (B) of one group, in one role."""

    group: str
    role: str
    base: str
    candidate: str
    diff: VariablesDiff


@dataclass(frozen=True)
class GroupAaTrials:
    """The A/A trials of a group, and the ratio to the base's trials of the same blocks."""

    base_id: str
    fixed_factors: Mapping[str, Level]
    label: str
    planned: int
    finished: int
    estimate: RatioEstimate | None


@dataclass(frozen=True)
class AaTrials:
    """The A/A trials of a run by group, and all their pairs together (``estimate``)."""

    groups: tuple[GroupAaTrials, ...]
    estimate: RatioEstimate | None

    @property
    def excludes_1(self) -> bool:
        """Return whether the host calls the base different from itself."""
        return self.estimate is not None and self.estimate.excludes_1


@dataclass(frozen=True)
class FirstCause:
    """The first likely cause of a comparison that its explanation names.

    ``about`` names it; ``settings`` are suspected, with their values in the base and the candidate,
    and ``names`` what these call those that one of them calls otherwise, or lacks (None). ``share``
    is the measured share of the difference, of a cause that an experiment showed. ``functions``
    made most of the difference where that is CPU time, in µs of an operation and as shares of the
    difference in CPU time, by name; empty where that is not known.
    """

    about: str
    settings: Mapping[str, tuple[str | None, str | None]]
    certainty: Certainty
    names: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    share: float | None = None
    functions: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class ApplicableCalibration:
    """A calibration in a line.

    ``age_s`` is from the end of its last trial to when the report is made. ``false`` of
    ``verdicts`` were false, a rate from ``low`` to ``high`` (95 %; None without a verdict), and
    ``refused`` of them were none on speed. ``smallest`` is the smallest change seen in ``blocks``
    blocks, a fraction, in the quietest and in the noisiest group. ``stale`` says why it says little
    about the run.
    """

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
class LevelsEffect:
    """The ratio candidate / base at these levels, a mean over the others, and its verdict.

    ``apart`` is what is particular to them, a ratio; ``stands_out`` says whether that is real.
    ``differing`` counts the comparisons at these levels that are a regression or an improvement.
    """

    levels: Mapping[str, Level]
    here: Effect
    verdict: Verdict
    apart: Effect
    stands_out: bool
    differing: int = 0


@dataclass(frozen=True)
class Term:
    """A factor or a pair of them; ``spread`` is how far its levels lie apart, a ratio.

    ``matters`` says whether the ratio depends on it for certain, by more than the margin.
    """

    factors: tuple[str, ...]
    adjusted_p: float
    spread: float
    matters: bool
    at: tuple[LevelsEffect, ...]


@dataclass(frozen=True)
class Dependence:
    """The dependence of a candidate's ratio on ``factors``, in the headline metric.

    ``overall`` is the mean over all levels alike, ``verdict`` that on it; all intervals are of
    ``confidence``. ``terms`` is empty where too many comparisons are missing to tell factors apart.
    No comparison is shown to be further from the mean of all than the fraction ``apart_at_most``;
    ``uniform`` says that this is inside the margin. ``everywhere`` is the verdict that all
    comparisons share, if any. ``unexplained`` says that the comparisons hold more than factors and
    pairs explain. ``missing`` of ``planned`` comparisons have no result to rest on.
    """

    candidate: Level
    factors: tuple[str, ...]
    confidence: float
    overall: Effect
    verdict: Verdict
    terms: tuple[Term, ...]
    apart_at_most: float
    uniform: bool
    everywhere: Verdict | None
    unexplained: bool
    missing: int
    planned: int


@dataclass(frozen=True)
class ComparisonStatus:
    """The state of a comparison while a run goes on. ``label`` is the candidate's.

    ``after`` is how many blocks the run had when it was closed, None while it is open.
    ``more_blocks`` is about how many would decide an open one; None where that is unknown, or above
    10 000.
    """

    comparison: Comparison
    label: str
    state: ComparisonState
    after: int | None
    more_blocks: int | None


@dataclass(frozen=True)
class RunStatus:
    """The state of a run and its comparisons after ``blocks`` of them.

    ``needed`` has how many more blocks each treatment needs, about, by its id; it lacks those that
    need none. ``ending`` says why a sequential run has no further block, if so.
    """

    blocks: int
    comparisons: tuple[ComparisonStatus, ...]
    needed: Mapping[str, int]
    ending: Ending | None

    @property
    def open(self) -> tuple[ComparisonStatus, ...]:
        return tuple(each for each in self.comparisons if each.state == "open")

    @property
    def more_blocks(self) -> int | None:
        """Estimate how many more blocks the open comparisons take; None without an estimate."""
        wanted = [each.more_blocks for each in self.open]
        known = [number for number in wanted if number is not None]
        return max(known) if known and len(known) == len(wanted) else None


@dataclass(frozen=True)
class RunAnalysis:
    """Everything a report says about one run.

    ``headline`` is the metric of the answer; ``time`` is the time it divides by, if it is a rate.
    ``constants`` are factors with a single level. ``trials`` are in the order of the plan, those
    that measure and A/A trials, and so are ``failures``. ``extended_at`` is how many blocks had a
    result each time more were added; ``holds_for`` which looks the intervals hold for. ``spent_s``
    is how long all of ``trials`` took, ``retried`` how many had failed and were made again when all
    had ended. ``disturbed`` are the blocks in which the host took time from a trial, ``stalls`` the
    comparisons in slices whose sides stalled unequally. ``calibrations`` is the one of the host
    that is quoted, None where nobody looked for one. ``causes`` are the first likely ones, by the
    ids of base and candidate. ``instructions`` are compared counts, each with its group's label.
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
    extended_at: tuple[int, ...]
    holds_for: Looks = "once"
    aa_trials: AaTrials | None = None
    spent_s: float = 0.0
    retried: int = 0
    calibrations: tuple[ApplicableCalibration, ...] | None = None
    disturbed: DisturbedBlocks | None = None
    stalls: tuple[UnequalStalls, ...] = ()
    causes: Mapping[tuple[str, str], FirstCause] = field(default_factory=dict)
    instructions: tuple[tuple[str, CountComparison], ...] = ()
    status: RunStatus = RunStatus(0, (), {}, None)
    dependences: tuple[Dependence, ...] = ()

    @property
    def shares_noise(self) -> bool:
        """Return whether intervals borrow from the noise of all comparisons of the run."""
        return any(each.shares for each in self._estimates())

    @property
    def earlier_runs(self) -> int:
        """The largest number of earlier runs from whose noise an interval borrows."""
        return max((each.earlier_runs for each in self._estimates()), default=0)

    def _estimates(self) -> Iterator[RatioEstimate]:
        found = (each.estimate for group in self.groups for each in group.comparisons)
        return (each for each in found if each is not None)

    @property
    def base_text(self) -> str:
        return level_text(self.factor, self.base)

    @property
    def treatments(self) -> tuple[TreatmentAnalysis, ...]:
        return tuple(treatment for group in self.groups for treatment in group.treatments)

    @property
    def limits(self) -> Mapping[str, tuple[str, ...]]:
        """Name the limits of control and observation of each server that has any, by its name."""
        return {
            instance.server.name: instance.limits
            for treatment in self.treatments
            for instance in treatment.instances
            if instance.limits
        }

    def comparisons(self, metric: Metric | None = None) -> tuple[Comparison, ...]:
        """Return the comparisons in one metric (the headline unless named), group by group."""
        wanted = metric or self.headline
        return tuple(each for group in self.groups for each in group.in_metric(wanted))


def varied_factors(analysis: RunAnalysis) -> list[str]:
    """Return the held factors with more than one level, in the experiment's order."""
    held = analysis.groups[0].fixed_factors if analysis.groups else {}
    return [name for name in held if name not in analysis.constants]
