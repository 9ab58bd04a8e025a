"""The report as a JSON document. These models are its schema, version ``millrace.report/1``.

Within version 1 keys are only added. ``docs/report-json.md`` describes the document, and
``report/schema/report-1.schema.json`` is generated from here (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from millrace.analysis.metrics import Direction
from millrace.analysis.model import (
    Comparison,
    InstanceAnalysis,
    MetricSummary,
    RunAnalysis,
    TreatmentAnalysis,
    Verdict,
)
from millrace.report.published import published_beside
from millrace.report.sentences import answer, sentence
from millrace.store.records import Level

Version = Literal["millrace.report/1"]
VERSION: Version = "millrace.report/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunPart(_Part):
    """The run: what was carried out, where and with which versions."""

    id: str
    digest: str
    name: str
    title: str
    scale: str
    created_utc: str
    seed: int
    blocks: int
    versions: dict[str, str]
    parameters: dict[str, Any]
    command: str


class HostPart(_Part):
    """Facts of the host when the run began, doctor's findings included."""

    id: str
    facts: dict[str, Any]


class MetricPart(_Part):
    """A metric; `direction` is the better one."""

    name: str
    title: str
    unit: str
    direction: Direction
    headline: bool


class TrialPart(_Part):
    """One finished trial's value; `block` counts from 0."""

    trial: str
    block: int
    value: float


class SummaryPart(_Part):
    """A metric over a treatment's finished trials, in the metric's unit; `cv` is a fraction.

    `low` and `high` are the interval of the geometric mean across trials.
    """

    n: int
    mean: float
    median: float
    geometric_mean: float
    low: float | None
    high: float | None
    minimum: float
    maximum: float
    sd: float | None
    cv: float | None
    trials: list[TrialPart]


class OptionPart(_Part):
    """An option that was asked for and has another effective value, or was left out."""

    role: str
    name: str
    asked: str | None
    effective: str | None
    layer: str
    left_out: str | None


class TreatmentPart(_Part):
    """A treatment: its levels, its trials and what they measured."""

    id: str
    label: str
    level: Level
    held: dict[str, Level]
    is_base: bool
    planned: int
    finished: int
    failed: int
    metrics: dict[str, SummaryPart]
    steps_s: dict[str, float]
    sizes_bytes: dict[str, float]
    options: list[OptionPart]


class ComparisonPart(_Part):
    """Candidate / base in one metric. Null: no estimate, too few blocks, or not to be told.

    `n_blocks` is the number of blocks in which both finished; `minimum_detectable` is a fraction.
    """

    base: Level
    candidate: Level
    base_treatment: str
    candidate_treatment: str
    held: dict[str, Level]
    metric: str
    direction: Direction
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    n_blocks: int
    verdict: Verdict | None
    reason: str
    minimum_detectable: float | None
    blocks_wanted: int | None
    same: bool
    sentence: str


class PublishedPart(_Part):
    """A published figure beside a treatment; `ratio` is to the published figure of the base."""

    study: str
    treatment: str
    version: str
    metric: str
    value: float
    ratio: float | None
    note: str | None


class VariablesPart(_Part):
    """Effective variables that differ; `different` maps a name to [base's, candidate's]."""

    group: str
    role: str
    base: str
    candidate: str
    only_base: dict[str, str]
    only_candidate: dict[str, str]
    different: dict[str, tuple[str, str]]


class ServerPart(_Part):
    """A server that was measured, and the provenance of its build."""

    name: str
    family: str
    version: str
    version_reported: str
    build: dict[str, Any]


class FailurePart(_Part):
    """A failed trial; `block` counts from 0."""

    trial: str
    treatment: str
    block: int
    step: str
    reason: str
    log_tail: str | None


class ReportDocument(_Part):
    """What millrace says about one run."""

    model_config = ConfigDict(extra="forbid", frozen=True, title=VERSION)

    document_schema: Version = Field(alias="schema")
    answer: str
    run: RunPart
    margin: float
    confidence: float
    factor: str
    base: Level
    constants: dict[str, Level]
    metrics: list[MetricPart]
    comparisons: list[ComparisonPart]
    treatments: list[TreatmentPart]
    published: list[PublishedPart]
    variables: list[VariablesPart]
    servers: list[ServerPart]
    host: HostPart
    failures: list[FailurePart]


def as_document(analysis: RunAnalysis) -> ReportDocument:
    """The analysis as the documented, versioned document."""
    return ReportDocument(
        schema=VERSION,
        answer=answer(analysis),
        run=_run(analysis),
        margin=analysis.margin,
        confidence=analysis.confidence,
        factor=analysis.factor,
        base=analysis.base,
        constants=dict(analysis.constants),
        metrics=[
            MetricPart(
                name=metric.name,
                title=metric.title,
                unit=metric.unit,
                direction=metric.direction,
                headline=metric == analysis.headline,
            )
            for metric in analysis.metrics
        ],
        comparisons=[
            _comparison(comparison, analysis)
            for metric in analysis.metrics
            for comparison in analysis.comparisons(metric)
        ],
        treatments=[_treatment(treatment) for treatment in analysis.treatments],
        published=_published(analysis),
        variables=_variables(analysis),
        servers=[
            ServerPart(
                name=server.name,
                family=server.family,
                version=server.version,
                version_reported=server.version_reported,
                build=dict(server.build),
            )
            for server in analysis.servers
        ],
        host=HostPart(id=analysis.run.host.id, facts=dict(analysis.run.host.facts)),
        failures=[
            FailurePart(
                trial=failure.trial_id,
                treatment=failure.treatment,
                block=failure.block,
                step=failure.step,
                reason=failure.reason,
                log_tail=failure.log_tail,
            )
            for failure in analysis.failures
        ],
    )


def as_json(analysis: RunAnalysis) -> str:
    """The document as indented JSON text, with a newline at its end."""
    return as_document(analysis).model_dump_json(by_alias=True, indent=2) + "\n"


def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    generated = ReportDocument.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def _run(analysis: RunAnalysis) -> RunPart:
    run = analysis.run
    return RunPart(
        id=run.id,
        digest=run.digest,
        name=run.name,
        title=run.title,
        scale=run.scale,
        created_utc=run.created_utc,
        seed=run.seed,
        blocks=run.blocks,
        versions=dict(run.versions),
        parameters=dict(run.spec.get("parameters", {})),
        command=run.millrace_command,
    )


def _comparison(comparison: Comparison, analysis: RunAnalysis) -> ComparisonPart:
    estimate = comparison.estimate
    return ComparisonPart(
        base=comparison.base,
        candidate=comparison.candidate,
        base_treatment=comparison.base_id,
        candidate_treatment=comparison.candidate_id,
        held=dict(comparison.held),
        metric=comparison.metric.name,
        direction=comparison.metric.direction,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        confidence=analysis.confidence,
        n_blocks=comparison.n_blocks,
        verdict=comparison.verdict,
        reason=comparison.reason,
        minimum_detectable=comparison.minimum_detectable,
        blocks_wanted=comparison.blocks_wanted,
        same=comparison.same,
        sentence=sentence(comparison, analysis),
    )


def _treatment(treatment: TreatmentAnalysis) -> TreatmentPart:
    return TreatmentPart(
        id=treatment.id,
        label=treatment.label,
        level=treatment.level,
        held=dict(treatment.held),
        is_base=treatment.is_base,
        planned=treatment.planned,
        finished=treatment.finished,
        failed=treatment.failed,
        metrics={name: _summary(metric) for name, metric in treatment.metrics.items()},
        steps_s={step.name: step.mean_s for step in treatment.steps},
        sizes_bytes=dict(treatment.sizes),
        options=[option for instance in treatment.instances for option in _options(instance)],
    )


def _summary(metric: MetricSummary) -> SummaryPart:
    summary = metric.summary
    return SummaryPart(
        n=summary.n,
        mean=summary.mean,
        median=summary.median,
        geometric_mean=summary.geometric_mean,
        low=summary.low,
        high=summary.high,
        minimum=summary.minimum,
        maximum=summary.maximum,
        sd=summary.sd,
        cv=summary.cv,
        trials=[TrialPart(trial=t.trial_id, block=t.block, value=t.value) for t in metric.trials],
    )


def _options(instance: InstanceAnalysis) -> list[OptionPart]:
    differing = [
        OptionPart(
            role=instance.role,
            name=mismatch.name,
            asked=mismatch.asked,
            effective=mismatch.effective,
            layer=mismatch.layer,
            left_out=None,
        )
        for mismatch in instance.mismatches
    ]
    left_out = [
        OptionPart(
            role=instance.role,
            name=option.name,
            asked=option.value,
            effective=None,
            layer=option.layer,
            left_out=option.left_out,
        )
        for option in instance.left_out
    ]
    return differing + left_out


def _published(analysis: RunAnalysis) -> list[PublishedPart]:
    study = published_beside(analysis)
    if study is None:
        return []
    return [
        PublishedPart(
            study=study.name,
            treatment=figure.treatment_id,
            version=figure.version,
            metric=figure.metric.name,
            value=figure.value,
            ratio=figure.ratio,
            note=figure.note,
        )
        for figure in study.figures
    ]


def _variables(analysis: RunAnalysis) -> list[VariablesPart]:
    return [
        VariablesPart(
            group=compared.group,
            role=compared.role,
            base=compared.base,
            candidate=compared.candidate,
            only_base=dict(compared.diff.only_a),
            only_candidate=dict(compared.diff.only_b),
            different=dict(compared.diff.different),
        )
        for compared in analysis.variables
    ]
