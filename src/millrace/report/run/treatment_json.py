"""A treatment as a part of the JSON document: its trials and what they measured."""

from __future__ import annotations

from dataclasses import asdict

from millrace.analysis.compare.latencies import Latency
from millrace.analysis.compare.treatment_model import (
    InstanceAnalysis,
    MetricSummary,
    TreatmentAnalysis,
)
from millrace.analysis.steady.steadiness import TrialSteadiness
from millrace.report.run.treatment_schema import (
    ConditionsPart,
    GatePart,
    LatencyPart,
    OptionPart,
    SteadinessPart,
    SummaryPart,
    TreatmentPart,
    TrialPart,
    WorkPart,
)

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99)


def treatment_part(treatment: TreatmentAnalysis) -> TreatmentPart:
    """A treatment as documents have it."""
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
