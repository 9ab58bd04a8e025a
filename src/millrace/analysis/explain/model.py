"""An explanation of a difference: plain values, read by the reports."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from millrace.analysis.counts.model import CountComparison
from millrace.analysis.explain.ablation import Ablation
from millrace.analysis.explain.blocking_stacks import BlockedComparison
from millrace.analysis.explain.breakdown_model import BreakdownDifference, TimeBreakdown
from millrace.analysis.explain.causes.model import LikelyCause
from millrace.analysis.explain.efficiency import EfficiencyRow
from millrace.analysis.explain.observations import Noun, ObservedTrial
from millrace.analysis.explain.plans import PlanComparison
from millrace.analysis.explain.profiles import FlatProfile, ProfileComparison
from millrace.analysis.explain.statement_breakdown import (
    StatementBreakdown,
    StatementBreakdownDifference,
)
from millrace.analysis.explain.statements import StatementComparison
from millrace.analysis.explain.waits import Coverage, DigestComparison, WaitComparison
from millrace.analysis.variables import VariablesDiff
from millrace.levels import Level
from millrace.stats.ratio import RatioEstimate
from millrace.store.records import InstanceRecord, RunRecord

Side = Literal["A", "B"]


@dataclass(frozen=True)
class Disturbance:
    """A disturbance of the host in one trial, in a clause; ``block`` counts from 0."""

    side: Side
    block: int
    profiled: bool
    clause: str


@dataclass(frozen=True)
class MissingObservation:
    """An observation that ``trials`` of a side's trials lack, and what to do about it."""

    side: Side
    observer: str
    what: str
    hint: str
    trials: int


@dataclass(frozen=True)
class SideExplanation:
    """One of the two treatments: its trials that were measured and those that were profiled.

    ``breakdown`` and ``coverage`` are None where too little was observed, and
    ``statement_breakdowns`` empty, as where an operation has one statement alone. ``instance`` is
    the server as its last trial recorded it; ``flat`` its profile, if it has one. ``waiting`` of
    its trials have no result yet; ``failed`` ended in an error, the first as ``first_failure``
    says.
    """

    label: str
    level: Level
    levels: Mapping[str, Level]
    trials: tuple[ObservedTrial, ...]
    profiled: tuple[ObservedTrial, ...]
    breakdown: TimeBreakdown | None
    statement_breakdowns: tuple[StatementBreakdown, ...]
    coverage: Coverage | None
    flat: FlatProfile | None
    instance: InstanceRecord | None
    waiting: int
    failed: int
    first_failure: str

    @property
    def blocks(self) -> set[int]:
        """Return the numbers of the blocks in which it was measured or profiled, from 1."""
        return {trial.block + 1 for trial in (*self.trials, *self.profiled)}


@dataclass(frozen=True)
class Explanation:
    """The base (A) and a candidate (B) of one group; all differences are B - A.

    ``group`` are the shared levels of factors that have several. ``unequal`` says in which way the
    two did not do the same work, and is empty where they did. ``differences`` and ``profile`` are
    None where no block has both, ``instructions`` where neither was counted,
    ``statement_breakdown_differences`` empty where an operation has
    one statement or nobody looked. ``why_no_likely_causes`` is a sentence where the times
    show none although both have a breakdown; facts may be among the causes all the same.
    ``latency_ratio`` is B / A as a verdict has it. ``ablation`` is the newest measurement of the
    causes.
    """

    run: RunRecord
    factor: str
    group: str
    fixed_factors: Mapping[str, Level]
    noun: Noun
    a: SideExplanation
    b: SideExplanation
    differences: BreakdownDifference | None
    statement_breakdown_differences: tuple[StatementBreakdownDifference, ...]
    blocked: tuple[BlockedComparison, ...]
    statements: tuple[StatementComparison, ...]
    efficiency: tuple[EfficiencyRow, ...]
    waits: tuple[WaitComparison, ...]
    stages: tuple[WaitComparison, ...]
    digests: tuple[DigestComparison, ...]
    plans: tuple[PlanComparison, ...]
    profile: ProfileComparison | None
    instructions: CountComparison | None
    variables: VariablesDiff | None
    unequal: str
    disturbances: tuple[Disturbance, ...]
    missing: tuple[MissingObservation, ...]
    likely_causes: tuple[LikelyCause, ...] = ()
    why_no_likely_causes: str = ""
    latency_ratio: RatioEstimate | None = None
    ablation: Ablation | None = None

    @property
    def base(self) -> str:
        return self.a.label

    @property
    def candidate(self) -> str:
        return self.b.label


def is_observed(explanation: Explanation) -> bool:
    """Return whether either side has observations besides its throughput."""
    trials = (*explanation.a.trials, *explanation.b.trials)
    observed = not all(trial.attempt.observations.is_empty for trial in trials)
    return (
        observed
        or bool(explanation.a.profiled or explanation.b.profiled)
        or explanation.instructions is not None
    )


def is_compared(explanation: Explanation) -> bool:
    """Return whether a block has trials of both sides, so that there is something to compare."""
    a, b = (side.blocks for side in (explanation.a, explanation.b))
    return bool(a & b)


def only_compared(explanation: Explanation) -> Explanation:
    """Return the explanation without data of only one side, where nothing can be compared."""
    if is_compared(explanation):
        return explanation
    a, b = (replace(side, coverage=None, flat=None) for side in (explanation.a, explanation.b))
    return replace(
        explanation, a=a, b=b, blocked=(), statements=(), efficiency=(), waits=(), stages=(),
        digests=(), plans=(), disturbances=(), missing=(), likely_causes=(),
        why_no_likely_causes="",
    )  # fmt: skip
