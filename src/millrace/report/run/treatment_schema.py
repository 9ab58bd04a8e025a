"""The part of the JSON report's schema about a treatment: its trials and what they measured."""

from typing import Annotated, Literal

from millrace.analysis.compare.background_clients import BackgroundFigures
from millrace.analysis.compare.conditions import DriveConditions
from millrace.analysis.compare.maintenance import MaintenanceFigures
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.analysis.steady.steadiness import State
from millrace.levels import Level
from millrace.model.run_spec import Of, Time
from millrace.report.common.json_parts import From, Part, part
from millrace.stats.trend import TrendClass


class TrialPart(Part):
    """One finished trial's value; `block` counts from 0."""

    trial: Annotated[str, From("trial_id")]
    block: int
    value: float


class SummaryPart(Part):
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


class OptionPart(Part):
    """An option that was asked for and has another effective value, or was left out."""

    role: str
    name: str
    asked: str | None
    effective: str | None
    layer: str
    left_out: str | None


class WorkPart(Part):
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
    error_codes: Annotated[
        dict[str, int], From(lambda work: {str(code): n for code, n in work.error_codes})
    ]


class SteadyCheckPart(Part):
    """A check of the server's own figures at both ends of the measured part.

    `result` is `unknown` where the server has no such figures; `hint` is for a failed check.
    """

    name: str
    result: Literal["passed", "failed", "unknown"]
    figures: str
    hint: str


class SteadinessPart(Part):
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


class LatencyPart(Part):
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


class LoopPart(Part):
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


class FullDiskPart(Part):
    """The behaviour of a server while its disk was full, and the rows that were left, of one trial.

    `trouble` is the first one: `error`, `silence` or `end`; null: it could write on. Rows are null
    where `unreadable` says why. docs/full-disk.md explains each key.
    """

    trouble: Literal["error", "silence", "end"] | None
    trouble_s: float
    error_code: int | str | None
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


class TreatmentPart(Part):
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
