"""The JSON report on a run, version ``millrace.report/3``, and the models that it consists of.

Within version 3 keys are only added. ``docs/report-json.md`` describes the document, and
``report/schema/report-3.schema.json`` is generated from here (a test compares them).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from millrace.analysis.compare import model
from millrace.analysis.compare.comparability import SkippedShares
from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Group, RunAnalysis, varied_factors
from millrace.analysis.compare.published import published_comparison
from millrace.analysis.compare.treatments import (
    BackgroundFigures,
    MaintenanceFigures,
    TreatmentAnalysis,
)
from millrace.analysis.steady.steadiness import State
from millrace.levels import Level
from millrace.model.measurements import Direction
from millrace.model.run_spec import Of, Time
from millrace.report.calibration import head_line
from millrace.report.common.json_parts import (
    From,
    HostPart,
    JsonPart,
    RunPart,
    TextOrNull,
    document_text,
    part,
)
from millrace.report.run import notes
from millrace.report.run.causes import cause_text
from millrace.report.run.dependence import dependence_text
from millrace.report.run.doubts import doubts
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.undecided import next_step
from millrace.stats.ratio import Looks
from millrace.stats.trend import TrendClass


class TrialPart(JsonPart):
    """One finished trial's value; `block` counts from 0."""

    trial: Annotated[str, From("trial_id")]
    block: int
    value: float


class SummaryPart(JsonPart):
    """A metric over a treatment's finished trials, in the metric's unit; `cv` is a fraction.

    `low` and `high` are the interval of the geometric mean across trials.
    """

    WITHIN = "summary"

    n: int
    mean: float
    median: float
    geometric_mean: float
    level: float
    low: float | None
    high: float | None
    minimum: float
    maximum: float
    sd: float | None
    cv: float | None
    trials: list[TrialPart]


class OptionPart(JsonPart):
    """An option that was asked for and has another effective value, or was left out."""

    role: str
    name: str
    asked: str | None
    effective: str | None
    layer: str
    left_out: str | None


class WorkPart(JsonPart):
    """The work of one finished trial's clients, in transactions; `block` counts from 0.

    `error_codes` has how many transactions ended with each of the server's codes.
    """

    block: int
    transactions: int
    errors: int
    retries: int
    late: int
    skipped: int
    scheduled: int
    rows_read: int
    rows_affected: int
    error_codes: Annotated[dict[str, int], From(lambda work: dict(work.error_codes))]


class SteadyCheckPart(JsonPart):
    """A check of the server's own figures at both ends of the measured part.

    `result` is `unknown` where the server has no such figures; `hint` is for a failed check.
    """

    name: str
    result: Literal["passed", "failed", "unknown"]
    figures: str
    hint: str


class SteadinessPart(JsonPart):
    """The assessment of a finished trial's steady state; `block` counts from 0.

    `state` is `steady`, `unsteady`, `too short to tell`, `not recorded` or `does not
    apply` (trials of a fixed number of operations). `trend` is what `figure` did over the
    `seconds` points of the measured part, by the fraction `change`. `found_s` is when the warm-up
    of `warmup_s` had ended, and `enough_s` one that would have been enough for a trial that was not
    steady. `slowest` is the throughput of its slowest second. Null: not known.
    """

    trial: Annotated[str, From("trial_id")]
    block: int
    state: State
    figure: str
    trend: Annotated[TrendClass, From("trend.kind")]
    change: Annotated[float | None, From("trend.change")]
    seconds: int
    warmup_s: float | None
    measured_s: float | None
    found_s: float | None
    enough_s: float | None
    slowest: float | None
    checks: list[SteadyCheckPart]


class LatencyPart(JsonPart):
    """Latencies of a transaction or statement, of all finished trials together.

    `of` may also be `before`, `during` or `after`: all transactions in that part of the trials; or
    `background`: those of background clients of the test `name`.

    `time` is `service` (from the sending of a request) or `response` (from when it was due);
    `percentiles_s` maps a percentile, such as "99.9", to the time it took.
    """

    of: Of
    name: str
    time: Time
    count: int
    mean_s: float
    maximum_s: float
    percentiles_s: Annotated[
        dict[str, float],
        From(lambda latency: {f"{n:g}": s for n, s in latency.by_percentile().items()}),
    ]


def _options(treatment: TreatmentAnalysis) -> list[OptionPart]:
    return [
        option
        for instance in treatment.instances
        for option in (
            *(part(OptionPart, each, role=instance.role, left_out=None)
              for each in instance.mismatches),
            *(part(OptionPart, each, role=instance.role, asked=each.value, effective=None)
              for each in instance.left_out),
        )
    ]  # fmt: skip


class LoopPart(JsonPart):
    """A loop of a treatment's finished `trials`, by its number from 1: the means of its figures.

    `restarted_cold` is in how many of them the server started again before it; the bytes are those
    of the data directory at its end. `latencies` of transactions are those of loops 1, 2, 4 ..., of
    half of them and of the last one.
    """

    loop: int
    trials: int
    throughput: float
    restarted_cold: int
    apparent_bytes: float | None
    allocated_bytes: float | None
    latencies: list[LatencyPart]


class FullDiskPart(JsonPart):
    """The behaviour of a server while its disk was full, and the rows that were left, of one trial.

    `trouble` is the first one: `error`, `silence` or `end`; null: it could write on. Rows are null
    where `unreadable` says why. docs/full-disk.md explains each key.
    """

    trouble: Literal["error", "silence", "end"] | None
    trouble_s: float
    error_code: str | None
    error: str | None
    free_bytes: float
    reads: float
    reads_answered: float
    commits_while_full: float
    waiting_s: float | None
    ended: str | None
    recovery_s: float | None
    recovery_limit_s: float
    stop_failed: str | None
    restart_s: float | None
    restart_failed: str | None
    committed_rows: float
    lost_rows: float | None
    refused_rows: float | None
    unanswered_rows: float | None
    unreadable: str | None


class TreatmentPart(JsonPart):
    """A treatment: its levels, its trials and what they measured.

    Without driven clients, `work`, `latencies` and `steadiness` are empty and `conditions` is null;
    `maintenance` is null where no statements ran meanwhile; `background_clients` may be
    empty. `loops` are empty where the clients were driven once.
    """

    id: str
    label: str
    level: Level
    fixed_factors: dict[str, Level]
    is_base: bool
    planned: int
    finished: int
    failed: int
    metrics: dict[str, SummaryPart]
    steps_s: Annotated[dict[str, float], From("steps")]
    sizes_bytes: Annotated[dict[str, float], From("sizes")]
    table_rows: float | None
    work: list[WorkPart]
    conditions: Annotated[DriveConditions | None, From("driven")]
    maintenance: MaintenanceFigures | None
    background_clients: list[BackgroundFigures]
    loops: list[LoopPart]
    full_disk: list[FullDiskPart]
    latencies: list[LatencyPart]
    steadiness: list[SteadinessPart]
    options: Annotated[list[OptionPart], From(_options)]


Version = Literal["millrace.report/3"]
VERSION: Version = "millrace.report/3"


class MetricPart(JsonPart):
    """A metric; `direction` is the better one."""

    name: str
    title: str
    unit: str
    direction: Direction
    headline: bool


class ComparisonPart(JsonPart):
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


class ComparisonStatusPart(JsonPart):
    """The state of a comparison of the headline metric.

    `after` is how many blocks the run had when it was closed, null while it is open; `more_blocks`
    about how many would decide an open one, null where that is unknown.
    """

    base_treatment: Annotated[str, From("comparison.base_id")]
    candidate_treatment: Annotated[str, From("comparison.candidate_id")]
    state: model.ComparisonState
    after: int | None
    more_blocks: int | None


_IntervalsFrom = Literal["own_blocks", "all_comparisons", "earlier_runs"]


def _intervals_from(analysis: RunAnalysis) -> _IntervalsFrom:
    if analysis.shares_noise:
        return "all_comparisons"
    return "earlier_runs" if analysis.earlier_runs else "own_blocks"


class DesignPart(JsonPart):
    """The design of a run: exactly `blocks`, or `sequential`, with limits.

    `left_out_tests` of the experiment did not fit into the limit of time. `ended` says why a
    sequential run has no further block: all comparisons are `closed`, or the limit of `blocks` or
    `time`; null where it may go on. `intervals_hold_for` says whether intervals hold for `any`
    number of looks or for `once`, `intervals_from` whether the spread of each is that of its own
    blocks, shared by all comparisons of the run, or only moderated by earlier runs. `earlier_runs`
    is the number of these in all three cases.
    """

    WITHIN = "run.design"

    kind: Literal["fixed", "sequential"]
    blocks: int
    max_time_s: float | None
    slices: bool
    left_out_tests: list[str]
    ended: Annotated[model.Ending | None, From("status.ending")]
    intervals_hold_for: Annotated[Looks, From("holds_for")]
    intervals_from: Annotated[_IntervalsFrom, From(_intervals_from)]
    earlier_runs: int
    statuses: Annotated[list[ComparisonStatusPart], From("status.comparisons")]


class GroupAaTrialsPart(JsonPart):
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


class AaTrialsPart(JsonPart):
    """The base against itself: the pairs of all groups together, and each group's."""

    WITHIN = "estimate"

    n_pairs: Annotated[int, From("estimate.n_pairs", otherwise=0)]
    ratio: float | None
    low: float | None
    high: float | None
    excludes_1: bool
    groups: list[GroupAaTrialsPart]


class PublishedPart(JsonPart):
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


class VariablesPart(JsonPart):
    """Effective variables that differ; `different` maps a name to [base's, candidate's]."""

    WITHIN = "diff"

    group: str
    role: str
    base: str
    candidate: str
    only_base: Annotated[dict[str, str], From("diff.only_a")]
    only_candidate: Annotated[dict[str, str], From("diff.only_b")]
    different: dict[str, tuple[str, str]]


class ServerPart(JsonPart):
    """A server that was measured, and the provenance of its build.

    `limits` says what could not be controlled or observed there: an attached server has such.
    """

    name: str
    family: str
    version: str
    version_reported: str
    build: Annotated[dict[str, Any], From(lambda server: server.build.to_json())]
    limits: list[str]


class MatrixCellPart(JsonPart):
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


class MatrixRowPart(JsonPart):
    """The treatments that share the levels in `fixed_factors`, those of held factors that vary."""

    fixed_factors: dict[str, Level]
    cells: list[MatrixCellPart]


class MatrixPart(JsonPart):
    """All comparisons of one metric: a row a group, in each a cell a level of the factor."""

    metric: str
    rows: list[MatrixRowPart]


@dataclass(frozen=True)
class CalibrationPart(model.ApplicableCalibration):
    """The calibration of the host that is quoted: of the experiment, else of any."""

    sentence: str


class FailurePart(JsonPart):
    """A failed trial; `block` counts from 0."""

    trial: Annotated[str, From("trial_id")]
    treatment: str
    block: int
    step: str
    reason: str
    log_tail: str | None


class ReportDocument(JsonPart):
    """The report on one run."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    answer: Annotated[str, From(answer)]
    doubts: Annotated[list[str], From(doubts)]
    next_step: Annotated[TextOrNull, From(next_step)]
    run: RunPart
    design: Annotated[DesignPart, From(lambda analysis: analysis)]
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
    instructions: Annotated[list[str], From(notes.instructions)]
    published: list[PublishedPart]
    variables: list[VariablesPart]
    servers: list[ServerPart]
    host: Annotated[HostPart, From("run.host")]
    failures: list[FailurePart]
    calibration: CalibrationPart | None


def as_json(analysis: RunAnalysis) -> str:
    """Return the versioned document as indented JSON text, with a newline at its end."""
    study = published_comparison(analysis)
    headline = analysis.headline
    document = part(
        ReportDocument,
        analysis,
        schema=VERSION,
        metrics=[part(MetricPart, each, headline=each == headline) for each in analysis.metrics],
        matrices=[_matrix(metric, analysis) for metric in analysis.metrics],
        comparisons=[
            part(
                ComparisonPart,
                comparison,
                confidence=analysis.confidence,
                sentence=sentence(comparison, analysis),
                first_cause=cause_text(comparison, analysis) or None,
            )
            for metric in analysis.metrics
            for comparison in analysis.comparisons(metric)
        ],
        dependences=[
            DependencePart(
                **vars(each), metric=headline.name, sentence=dependence_text(each, analysis)
            )
            for each in analysis.dependences
        ],
        published=[part(PublishedPart, each, study=study.name) for each in study.figures]
        if study is not None
        else [],
        servers=[
            part(ServerPart, server, limits=analysis.limits.get(server.name, ()))
            for server in analysis.servers
        ],
        calibration=CalibrationPart(
            **vars(analysis.calibrations[0]), sentence=head_line(analysis) or ""
        )
        if analysis.calibrations
        else None,
    )
    return document_text(document)


def _matrix(metric: Metric, analysis: RunAnalysis) -> MatrixPart:
    varied = varied_factors(analysis)
    return MatrixPart(
        metric=metric.name,
        rows=[
            MatrixRowPart(
                fixed_factors={name: group.fixed_factors[name] for name in varied},
                cells=[_matrix_cell(t, group, metric) for t in group.treatments],
            )
            for group in analysis.groups
        ],
    )


def _matrix_cell(treatment: TreatmentAnalysis, group: Group, metric: Metric) -> MatrixCellPart:
    in_metric = group.in_metric(metric)
    comparison = next((c for c in in_metric if c.candidate_id == treatment.id), None)
    found = treatment.metrics.get(metric.name)
    value = None if found is None else found.level
    return part(
        MatrixCellPart, comparison, level=treatment.level, treatment=treatment.id, value=value
    )
