"""The JSON report's schema, version ``millrace.report/3``, as the models it is made of.

Within version 3 keys are only added. ``docs/report-json.md`` describes the document, and
``report/schema/report-3.schema.json`` is generated from here (a test compares them).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from millrace.analysis.compare import model
from millrace.analysis.compare.equal_work import SkippedShares
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.report.common.json_parts import From, HostPart, Part, RunPart, TextOrNull
from millrace.report.run.treatment_schema import TreatmentPart
from millrace.stats.ratio import Looks

Version = Literal["millrace.report/3"]
VERSION: Version = "millrace.report/3"


class MetricPart(Part):
    """A metric; `direction` is the better one."""

    name: str
    title: str
    unit: str
    direction: Direction
    headline: bool


class ComparisonPart(Part):
    """Candidate / base in one metric. Null: no estimate, too few blocks, or not known.

    `n_blocks` is the number of blocks in which both finished, `agreeing_blocks` of those on the
    side of 1 of the `ratio`; `minimum_detectable` is a fraction. `more_blocks` would settle an
    undecided comparison that stays as it is.
    `base_failed` and `candidate_failed` count failed trials. `unequal_work` says in which way the
    two did not do the same work, or are not shown to have done, and is null where they are;
    `unsteady` that too many trials were not steady, with a hint, null where they were.
    `skipped` are the shares of an open loop's schedule that both sides skipped, where these are the
    verdict. `slower_at_least` is how many times slower a candidate is at least that failed because
    a transaction did not end in time.
    `adjusted_p` is the p-value among all comparisons of the metric, and `may_be_chance` says of a
    regression or improvement that it does not survive the correction for their number.
    `first_cause` is the first likely cause of a difference of the headline metric, in words.
    """

    WITHIN = "estimate"

    base: Level
    candidate: Level
    base_treatment: Annotated[str, From("base_id")]
    candidate_treatment: Annotated[str, From("candidate_id")]
    fixed_factors: dict[str, Level]
    metric: Annotated[str, From("metric.name")]
    direction: Annotated[Direction, From("metric.direction")]
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    n_blocks: int
    verdict: model.Verdict | None
    reason: str
    base_failed: int
    candidate_failed: int
    minimum_detectable: float | None
    blocks_wanted: int | None
    unequal_work: Annotated[TextOrNull, From("unequal")]
    unsteady: TextOrNull
    agreeing_blocks: int
    more_blocks: int | None
    same: bool
    skipped: SkippedShares | None
    slower_at_least: float | None
    adjusted_p: float | None
    may_be_chance: Annotated[bool, From("not_significant")]
    first_cause: str | None
    sentence: str


@dataclass(frozen=True)
class DependencePart(model.Dependence):
    """The dependence of a candidate's ratio on ``factors``, in ``metric`` and in words."""

    metric: str
    sentence: str


class ComparisonStatusPart(Part):
    """The state of a comparison of the headline metric.

    `after` is how many blocks the run had when it was closed, null while it is open; `more_blocks`
    about how many would decide an open one, null where that is unknown.
    """

    base_treatment: Annotated[str, From("comparison.base_id")]
    candidate_treatment: Annotated[str, From("comparison.candidate_id")]
    state: model.ComparisonState
    after: int | None
    more_blocks: int | None


class DesignPart(Part):
    """The design of a run: exactly `blocks`, or `sequential`, with limits.

    `left_out_tests` of the experiment did not fit into the limit of time. `ended` says why a
    sequential run has no further block: all comparisons are `closed`, or the limit of `blocks` or
    `time`; null where it may go on. `intervals_hold_for` says whether intervals hold for `any`
    number of looks or for `once`, `intervals_from` whether the spread of each is that of its own
    blocks, shared by all comparisons of the run, or only moderated by earlier runs. `earlier_runs`
    is the number of these in all three cases.
    """

    kind: Literal["fixed", "sequential"]
    blocks: int
    max_time_s: float | None
    slices: bool
    left_out_tests: list[str]
    ended: model.Ending | None
    intervals_hold_for: Looks
    intervals_from: Literal["own_blocks", "all_comparisons", "earlier_runs"]
    earlier_runs: int
    statuses: list[ComparisonStatusPart]


class GroupAaTrialsPart(Part):
    """The base of a group against itself in the headline metric. Null: too few pairs."""

    WITHIN = "estimate"

    base_treatment: Annotated[str, From("base_id")]
    fixed_factors: dict[str, Level]
    planned: int
    finished: int
    n_blocks: Annotated[int, From("estimate.n_pairs", otherwise=0)]
    ratio: float | None
    low: float | None
    high: float | None


class AaTrialsPart(Part):
    """The base against itself: the pairs of all groups together, and each group's."""

    WITHIN = "estimate"

    n_pairs: Annotated[int, From("estimate.n_pairs", otherwise=0)]
    ratio: float | None
    low: float | None
    high: float | None
    excludes_1: bool
    groups: list[GroupAaTrialsPart]


class PublishedPart(Part):
    """A published figure beside a treatment; `value` is null where only a ratio was published.

    `ratio` (to `ratio_high`, where a range was published) is to the published server
    `relative_to`; null where none was published, or what was is contradictory, which `note` says.
    """

    study: str
    treatment: Annotated[str, From("treatment_id")]
    version: str
    metric: Annotated[str, From("metric.name")]
    value: float | None
    ratio: float | None
    ratio_high: float | None
    relative_to: str | None
    note: str | None


class VariablesPart(Part):
    """Effective variables that differ; `different` maps a name to [base's, candidate's]."""

    WITHIN = "diff"

    group: str
    role: str
    base: str
    candidate: str
    only_base: Annotated[dict[str, str], From("diff.only_a")]
    only_candidate: Annotated[dict[str, str], From("diff.only_b")]
    different: dict[str, tuple[str, str]]


class ServerPart(Part):
    """A server that was measured, and the provenance of its build.

    `limits` says what could not be controlled or observed there: an attached server has such.
    """

    name: str
    family: str
    version: str
    version_reported: str
    build: Annotated[dict[str, Any], From(lambda server: server.build.to_json())]
    limits: list[str]


class MatrixCellPart(Part):
    """A treatment beside the base of its row. Null: no estimate, or the base itself."""

    WITHIN = "estimate"

    level: Level
    treatment: str
    value: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: model.Verdict | None
    may_be_chance: Annotated[bool, From("not_significant", otherwise=False)]


class MatrixRowPart(Part):
    """The treatments that share the levels in `fixed_factors`, those of held factors that vary."""

    fixed_factors: dict[str, Level]
    cells: list[MatrixCellPart]


class MatrixPart(Part):
    """All comparisons of one metric: a row a group, in each a cell a level of the factor."""

    metric: str
    rows: list[MatrixRowPart]


@dataclass(frozen=True)
class CalibrationPart(model.ApplicableCalibration):
    """The calibration of the host that is quoted: of the experiment, else of any."""

    sentence: str


class FailurePart(Part):
    """A failed trial; `block` counts from 0."""

    trial: Annotated[str, From("trial_id")]
    treatment: str
    block: int
    step: str
    reason: str
    log_tail: str | None


class ReportDocument(Part):
    """The report on one run."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    answer: str
    doubts: list[str]
    next_step: str | None
    run: RunPart
    design: DesignPart
    aa_trials: AaTrialsPart | None
    margin: float
    confidence: float
    factor: str
    base: Level
    constants: dict[str, Level]
    metrics: list[MetricPart]
    matrices: list[MatrixPart]
    comparisons: list[ComparisonPart]
    dependences: list[DependencePart]
    treatments: list[TreatmentPart]
    instructions: list[str]
    published: list[PublishedPart]
    variables: list[VariablesPart]
    servers: list[ServerPart]
    host: Annotated[HostPart, From("run.host")]
    failures: list[FailurePart]
    calibration: CalibrationPart | None
