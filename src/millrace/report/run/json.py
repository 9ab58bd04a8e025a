"""The analysis of a run as the documented JSON document."""

from typing import Literal

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Group, RunAnalysis, varied_factors
from millrace.analysis.compare.published import published_comparison
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.report.calibration.sentences import head_line
from millrace.report.common.json_parts import document_text, part
from millrace.report.run import notes, schema
from millrace.report.run.causes import cause_text
from millrace.report.run.dependence import dependence_text
from millrace.report.run.doubts import doubts
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.undecided import next_step


def as_json(analysis: RunAnalysis) -> str:
    """Return the versioned document as indented JSON text, with a newline at its end."""
    study = published_comparison(analysis)
    headline = analysis.headline
    document = part(
        schema.ReportDocument,
        analysis,
        schema=schema.VERSION,
        answer=answer(analysis),
        doubts=doubts(analysis),
        next_step=next_step(analysis) or None,
        design=part(
            schema.DesignPart,
            analysis.run.design,
            ended=analysis.status.ending,
            intervals_hold_for=analysis.holds_for,
            intervals_from=_intervals_from(analysis),
            earlier_runs=analysis.earlier_runs,
            statuses=analysis.status.comparisons,
        ),
        metrics=[
            part(schema.MetricPart, each, headline=each == headline) for each in analysis.metrics
        ],
        matrices=[_matrix(metric, analysis) for metric in analysis.metrics],
        comparisons=[
            part(
                schema.ComparisonPart,
                comparison,
                confidence=analysis.confidence,
                sentence=sentence(comparison, analysis),
                first_cause=cause_text(comparison, analysis) or None,
            )
            for metric in analysis.metrics
            for comparison in analysis.comparisons(metric)
        ],
        dependences=[
            schema.DependencePart(
                **vars(each), metric=headline.name, sentence=dependence_text(each, analysis)
            )
            for each in analysis.dependences
        ],
        instructions=notes.instructions(analysis),
        published=[part(schema.PublishedPart, each, study=study.name) for each in study.figures]
        if study is not None
        else [],
        servers=[
            part(schema.ServerPart, server, limits=analysis.limits.get(server.name, ()))
            for server in analysis.servers
        ],
        calibration=schema.CalibrationPart(
            **vars(analysis.calibrations[0]), sentence=head_line(analysis) or ""
        )
        if analysis.calibrations
        else None,
    )
    return document_text(document)


def _intervals_from(
    analysis: RunAnalysis,
) -> Literal["own_blocks", "all_comparisons", "earlier_runs"]:
    if analysis.shares_noise:
        return "all_comparisons"
    return "earlier_runs" if analysis.earlier_runs else "own_blocks"


def _matrix(metric: Metric, analysis: RunAnalysis) -> schema.MatrixPart:
    varied = varied_factors(analysis)
    return schema.MatrixPart(
        metric=metric.name,
        rows=[
            schema.MatrixRowPart(
                fixed_factors={name: group.fixed_factors[name] for name in varied},
                cells=[_matrix_cell(t, group, metric) for t in group.treatments],
            )
            for group in analysis.groups
        ],
    )


def _matrix_cell(
    treatment: TreatmentAnalysis, group: Group, metric: Metric
) -> schema.MatrixCellPart:
    in_metric = group.in_metric(metric)
    comparison = next((c for c in in_metric if c.candidate_id == treatment.id), None)
    found = treatment.metrics.get(metric.name)
    value = None if found is None else found.level
    return part(
        schema.MatrixCellPart,
        comparison,
        level=treatment.level,
        treatment=treatment.id,
        value=value,
    )
