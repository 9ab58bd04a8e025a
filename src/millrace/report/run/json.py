"""The analysis of a run as the documented JSON document."""

from __future__ import annotations

from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import (
    AaTrials,
    Comparison,
    Group,
    RunAnalysis,
    VariablesComparison,
    varied_factors,
)
from millrace.analysis.compare.published import published_comparison
from millrace.analysis.compare.treatment_model import (
    InstanceAnalysis,
    MetricSummary,
    TreatmentAnalysis,
)
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.report.calibration.sentences import head_line
from millrace.report.common.json_parts import document_text, host_part, interval, part, run_part
from millrace.report.run.dependence import dependence_text
from millrace.report.run.schema import (
    VERSION,
    AaTrialsPart,
    CalibrationPart,
    ComparisonPart,
    ComparisonStatusPart,
    DependencePart,
    DesignPart,
    FailurePart,
    GroupAaTrialsPart,
    MatrixCellPart,
    MatrixPart,
    MatrixRowPart,
    MetricPart,
    PublishedPart,
    ReportDocument,
    ServerPart,
    VariablesPart,
)
from millrace.report.run.sentences import answer, sentence
from millrace.report.run.treatment_schema import (
    LatencyPart,
    OptionPart,
    SteadinessPart,
    SummaryPart,
    TreatmentPart,
    TrialPart,
    WorkPart,
)


def as_document(analysis: RunAnalysis) -> ReportDocument:
    """Return the analysis as the documented, versioned document."""
    return part(
        ReportDocument,
        analysis,
        schema=VERSION,
        answer=answer(analysis),
        run=run_part(analysis.run),
        design=_design(analysis),
        aa_trials=None if analysis.aa_trials is None else _aa_trials(analysis.aa_trials),
        metrics=[
            part(MetricPart, metric, headline=metric == analysis.headline)
            for metric in analysis.metrics
        ],
        matrices=[_matrix(metric, analysis) for metric in analysis.metrics],
        comparisons=[
            _comparison(comparison, analysis)
            for metric in analysis.metrics
            for comparison in analysis.comparisons(metric)
        ],
        dependences=[
            DependencePart(
                **vars(each),
                metric=analysis.headline.name,
                sentence=dependence_text(each, analysis),
            )
            for each in analysis.dependences
        ],
        treatments=[_treatment(treatment) for treatment in analysis.treatments],
        published=_published(analysis),
        variables=[_variables(each) for each in analysis.variables],
        servers=[
            part(ServerPart, server, limits=analysis.limits.get(server.name, ()))
            for server in analysis.servers
        ],
        host=host_part(analysis.run.host),
        failures=[
            part(FailurePart, failure, trial=failure.trial_id) for failure in analysis.failures
        ],
        calibration=_calibration(analysis),
    )


def as_json(analysis: RunAnalysis) -> str:
    """Return the document as indented JSON text, with a newline at its end."""
    return document_text(as_document(analysis))


def _calibration(analysis: RunAnalysis) -> CalibrationPart | None:
    if not analysis.calibrations:
        return None
    return CalibrationPart(**vars(analysis.calibrations[0]), sentence=head_line(analysis) or "")


def _comparison(comparison: Comparison, analysis: RunAnalysis) -> ComparisonPart:
    return part(
        ComparisonPart,
        comparison,
        base_treatment=comparison.base_id,
        candidate_treatment=comparison.candidate_id,
        metric=comparison.metric.name,
        direction=comparison.metric.direction,
        **interval(comparison.estimate),
        confidence=analysis.confidence,
        unequal_work=comparison.unequal or None,
        unsteady=comparison.unsteady or None,
        sentence=sentence(comparison, analysis),
    )


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
    comparison = next(
        (
            c
            for c in group.comparisons
            if c.candidate_id == treatment.id and c.metric.name == metric.name
        ),
        None,
    )
    found = treatment.metrics.get(metric.name)
    return part(
        MatrixCellPart,
        treatment,
        treatment=treatment.id,
        value=None if found is None else found.level,
        **interval(None if comparison is None else comparison.estimate),
        verdict=None if comparison is None else comparison.verdict,
        may_be_chance=comparison is not None and comparison.may_be_chance,
    )


def _published(analysis: RunAnalysis) -> list[PublishedPart]:
    study = published_comparison(analysis)
    figures = () if study is None else study.figures
    return [
        part(
            PublishedPart,
            figure,
            study=study.name,
            treatment=figure.treatment_id,
            metric=figure.metric.name,
        )
        for figure in figures
        if study is not None
    ]


def _variables(compared: VariablesComparison) -> VariablesPart:
    diff = compared.diff
    return part(
        VariablesPart,
        compared,
        only_base=diff.only_a,
        only_candidate=diff.only_b,
        different=diff.different,
    )


def _design(analysis: RunAnalysis) -> DesignPart:
    return part(
        DesignPart,
        analysis.run.design,
        concurrent=analysis.run.design.concurrent,
        ended=analysis.status.ending,
        intervals_hold_for=analysis.holds_for,
        statuses=[
            part(
                ComparisonStatusPart,
                each,
                base_treatment=each.comparison.base_id,
                candidate_treatment=each.comparison.candidate_id,
            )
            for each in analysis.status.comparisons
        ],
    )


def _aa_trials(found: AaTrials) -> AaTrialsPart:
    return part(
        AaTrialsPart,
        found,
        n_pairs=0 if found.estimate is None else found.estimate.n_pairs,
        **interval(found.estimate),
        groups=[
            part(
                GroupAaTrialsPart,
                each,
                base_treatment=each.base_id,
                n_blocks=0 if each.estimate is None else each.estimate.n_pairs,
                **interval(each.estimate),
            )
            for each in found.groups
        ],
    )


def _treatment(treatment: TreatmentAnalysis) -> TreatmentPart:
    return part(
        TreatmentPart,
        treatment,
        metrics={name: _summary(metric) for name, metric in treatment.metrics.items()},
        steps_s={step.name: step.mean_s for step in treatment.steps},
        sizes_bytes=treatment.sizes,
        work=[
            part(WorkPart, work, error_codes={str(code): n for code, n in work.error_codes})
            for work in treatment.work
        ],
        conditions=treatment.driven,
        latencies=[_latency(latency) for latency in treatment.latencies],
        steadiness=[_steadiness(trial) for trial in treatment.steadiness],
        options=[option for instance in treatment.instances for option in _options(instance)],
    )


def _steadiness(trial: TrialSteadiness) -> SteadinessPart:
    trend = trial.trend
    return part(SteadinessPart, trial, trial=trial.trial_id, trend=trend.kind, change=trend.change)


def _latency(latency: Latency) -> LatencyPart:
    by_percent = {f"{percent:g}": s for percent, s in latency.by_percentile().items()}
    return part(LatencyPart, latency, percentiles_s=by_percent)


def _summary(metric: MetricSummary) -> SummaryPart:
    return part(
        SummaryPart,
        metric.summary,
        level=metric.level,
        trials=[part(TrialPart, trial, trial=trial.trial_id) for trial in metric.trials],
    )


def _options(instance: InstanceAnalysis) -> list[OptionPart]:
    differing = [
        part(OptionPart, mismatch, role=instance.role, left_out=None)
        for mismatch in instance.mismatches
    ]
    left_out = [
        part(OptionPart, option, role=instance.role, asked=option.value, effective=None)
        for option in instance.left_out
    ]
    return differing + left_out
