"""The analysis as the documented JSON document."""

from __future__ import annotations

from dataclasses import asdict, fields

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import (
    Comparison,
    Control,
    Controls,
    Dependence,
    Group,
    RunAnalysis,
    varied_factors,
)
from millrace.analysis.compare.published import published_beside
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.report.calibration.sentences import head_line
from millrace.report.common.json_parts import HostPart, run_part
from millrace.report.run.dependence import dependence_text
from millrace.report.run.schema import (
    VERSION,
    CalibrationPart,
    ComparisonPart,
    ControlPart,
    ControlsPart,
    DependencePart,
    DesignPart,
    FailurePart,
    MatrixCellPart,
    MatrixPart,
    MatrixRowPart,
    MetricPart,
    PublishedPart,
    ReportDocument,
    ServerPart,
    StandingPart,
    VariablesPart,
)
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.treatment_json import treatment_part
from millrace.shown_text import shown_json


def as_document(analysis: RunAnalysis) -> ReportDocument:
    """The analysis as the documented, versioned document."""
    return ReportDocument(
        schema=VERSION,
        answer=answer(analysis),
        run=run_part(analysis.run),
        design=_design(analysis),
        controls=_controls(analysis.controls),
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
        dependences=[_dependence(found, analysis) for found in analysis.dependences],
        treatments=[treatment_part(treatment) for treatment in analysis.treatments],
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


def _design(analysis: RunAnalysis) -> DesignPart:
    """How the number of blocks was decided, and how each comparison stands."""
    design = analysis.run.design
    return DesignPart(
        kind=design.kind,
        blocks=design.blocks,
        max_time_s=design.max_time_s,
        side_by_side=design.side_by_side,
        ended=analysis.status.ending,
        intervals_for=analysis.holds_for,
        standings=[
            StandingPart(
                base_treatment=each.comparison.base_id,
                candidate_treatment=each.comparison.candidate_id,
                state=each.state,
                after=each.after,
                more_blocks=each.more_blocks,
            )
            for each in analysis.status.comparisons
        ],
    )


def _controls(found: Controls | None) -> ControlsPart | None:
    """The base against itself; None where it never ran once more."""
    if found is None:
        return None
    estimate = found.estimate
    return ControlsPart(
        n_pairs=0 if estimate is None else estimate.n_pairs,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        excludes_1=found.excludes_1,
        groups=[_control(each) for each in found.groups],
    )


def _control(control: Control) -> ControlPart:
    estimate = control.estimate
    return ControlPart(
        base_treatment=control.base_id,
        held=dict(control.held),
        planned=control.planned,
        finished=control.finished,
        n_blocks=0 if estimate is None else estimate.n_pairs,
        ratio=None if estimate is None else estimate.ratio,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
    )
