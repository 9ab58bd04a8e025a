"""The analysis as the documented JSON document."""

from __future__ import annotations

from dataclasses import asdict, fields

from millrace.analysis.effects import Dependence, dependences
from millrace.analysis.latencies import Latency
from millrace.analysis.metrics import Metric
from millrace.analysis.model import (
    Comparison,
    Group,
    InstanceAnalysis,
    MetricSummary,
    RunAnalysis,
    TreatmentAnalysis,
)
from millrace.analysis.steadiness import TrialSteadiness
from millrace.report.calibrations import head_line
from millrace.report.design_json import controls_part, design_part
from millrace.report.published import published_beside
from millrace.report.repeating import repeating
from millrace.report.run.dependence import dependence_text
from millrace.report.run.matrix import varied_factors
from millrace.report.run.schema import (
    VERSION,
    CalibrationPart,
    ComparisonPart,
    ConditionsPart,
    DependencePart,
    FailurePart,
    GatePart,
    HostPart,
    LatencyPart,
    MatrixCellPart,
    MatrixPart,
    MatrixRowPart,
    MetricPart,
    OptionPart,
    PublishedPart,
    ReportDocument,
    RunPart,
    ServerPart,
    SteadinessPart,
    SummaryPart,
    TreatmentPart,
    TrialPart,
    VariablesPart,
    WorkPart,
)
from millrace.report.run.sentences import answer, sentence
from millrace.shown_text import shown_json
from millrace.store.records import RunRecord

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99)


def as_document(analysis: RunAnalysis) -> ReportDocument:
    """The analysis as the documented, versioned document."""
    return ReportDocument(
        schema=VERSION,
        answer=answer(analysis),
        run=run_part(analysis.run),
        design=design_part(analysis),
        controls=controls_part(analysis.controls),
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
        matrices=[_matrix(metric, analysis) for metric in analysis.metrics],
        comparisons=[
            _comparison(comparison, analysis)
            for metric in analysis.metrics
            for comparison in analysis.comparisons(metric)
        ],
        dependences=[_dependence(found, analysis) for found in dependences(analysis)],
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
                limits=list(analysis.limits.get(server.name, ())),
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
        calibration=_calibration(analysis),
    )


def _calibration(analysis: RunAnalysis) -> CalibrationPart | None:
    if not analysis.calibrations:
        return None
    quoted = asdict(analysis.calibrations[0]) | {"sentence": head_line(analysis)}
    return CalibrationPart(**{**quoted, "stale": list(quoted["stale"])})


def as_json(analysis: RunAnalysis) -> str:
    """The document as indented JSON text, with a newline at its end."""
    return shown_json(as_document(analysis).model_dump_json(by_alias=True, indent=2)) + "\n"


def run_part(run: RunRecord) -> RunPart:
    """The run as documents have it."""
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
        command=repeating(run.millrace_command),
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
        base_failed=comparison.base_failed,
        candidate_failed=comparison.candidate_failed,
        minimum_detectable=comparison.minimum_detectable,
        blocks_wanted=comparison.blocks_wanted,
        unequal_work=comparison.unequal or None,
        not_steady=comparison.unsteady or None,
        same=comparison.same,
        adjusted_p=comparison.adjusted_p,
        may_be_chance=comparison.may_be_chance,
        sentence=sentence(comparison, analysis),
    )


def _dependence(found: Dependence, analysis: RunAnalysis) -> DependencePart:
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    return DependencePart(
        **values, metric=analysis.headline.name, sentence=dependence_text(found, analysis)
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
        work=[
            WorkPart(**{**asdict(work), "error_codes": {str(c): n for c, n in work.error_codes}})
            for work in treatment.work
        ],
        conditions=(
            None if treatment.driven is None else ConditionsPart(**asdict(treatment.driven))
        ),
        latencies=[_latency(latency) for latency in treatment.latencies],
        steadiness=[_steadiness(trial) for trial in treatment.steadiness],
        options=[option for instance in treatment.instances for option in _options(instance)],
    )


def _steadiness(trial: TrialSteadiness) -> SteadinessPart:
    return SteadinessPart(
        trial=trial.trial_id,
        block=trial.block,
        state=trial.state,
        figure=trial.figure,
        course=trial.course.kind,
        change=trial.course.change,
        seconds=trial.seconds,
        warmup_s=trial.warmup_s,
        measured_s=trial.measured_s,
        found_s=trial.found_s,
        enough_s=trial.enough_s,
        gates=[
            GatePart(name=gate.name, result=gate.result, figures=gate.figures, remedy=gate.remedy)
            for gate in trial.gates
        ],
    )


def _latency(latency: Latency) -> LatencyPart:
    return LatencyPart(
        of=latency.of,
        name=latency.name,
        time=latency.time,
        count=latency.count,
        mean_s=latency.mean_s,
        maximum_s=latency.maximum_s,
        percentiles_s={
            f"{percent:g}": seconds
            for percent, seconds in zip(
                PERCENTILES, latency.percentiles_s(PERCENTILES), strict=True
            )
        },
    )


def _matrix(metric: Metric, analysis: RunAnalysis) -> MatrixPart:
    varied = varied_factors(analysis)
    return MatrixPart(
        metric=metric.name,
        rows=[
            MatrixRowPart(
                held={name: group.held[name] for name in varied},
                cells=[_matrix_cell(t, group, metric) for t in group.treatments],
            )
            for group in analysis.groups
        ],
    )


def _matrix_cell(treatment: TreatmentAnalysis, group: Group, metric: Metric) -> MatrixCellPart:
    comparison = next(
        (
            c
            for c in group.comparisons
            if c.candidate_id == treatment.id and c.metric.name == metric.name
        ),
        None,
    )
    estimate = comparison.estimate if comparison is not None else None
    found = treatment.metrics.get(metric.name)
    return MatrixCellPart(
        level=treatment.level,
        treatment=treatment.id,
        value=None if found is None else found.level,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        verdict=None if comparison is None else comparison.verdict,
        may_be_chance=comparison is not None and comparison.may_be_chance,
    )


def _summary(metric: MetricSummary) -> SummaryPart:
    summary = metric.summary
    return SummaryPart(
        n=summary.n,
        mean=summary.mean,
        median=summary.median,
        geometric_mean=summary.geometric_mean,
        level=metric.level,
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
            ratio_high=figure.ratio_high,
            relative_to=figure.relative_to,
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
