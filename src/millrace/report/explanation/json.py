"""Explanations as the documented JSON document."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.analysis.explain.explanation import Explained, Explanation
from millrace.analysis.explain.profiles import ProfileComparison
from millrace.report.common.json_parts import HostPart, run_part
from millrace.report.explanation.ablation import experiment_sentences
from millrace.report.explanation.caveats import doubts
from millrace.report.explanation.schema import (
    VERSION,
    ExperimentPart,
    ExplanationDocument,
    ExplanationPart,
    ProfilePart,
    SidePart,
)
from millrace.report.explanation.sentences import answer, title
from millrace.shown_text import shown_json
from millrace.store.records import RunRecord


def as_document(explanations: Sequence[Explanation], run: RunRecord) -> ExplanationDocument:
    """The explanations as the documented, versioned document."""
    return ExplanationDocument(
        schema=VERSION,
        run=run_part(run),
        host=HostPart(id=run.host.id, facts=dict(run.host.facts)),
        explanations=[_explanation(explanation) for explanation in explanations],
    )


def as_json(explanations: Sequence[Explanation], run: RunRecord) -> str:
    """The document as indented JSON text, with a newline at its end."""
    return (
        shown_json(as_document(explanations, run).model_dump_json(by_alias=True, indent=2)) + "\n"
    )


def _explanation(e: Explanation) -> ExplanationPart:
    return ExplanationPart(
        title=title(e),
        answer=answer(e),
        doubts=doubts(e),
        factor=e.factor,
        held=dict(e.held),
        noun=e.noun,
        a=_side(e.a),
        b=_side(e.b),
        unequal=e.unequal or None,
        suspects=list(e.suspects),
        why_no_suspects=e.why_no_suspects or None,
        experiment=_experiment(e),
        account=e.differences,
        statement_differences=list(e.statement_differences),
        blocked=list(e.blocked),
        efficiency=list(e.efficiency),
        statements=list(e.statements),
        waits=list(e.waits),
        stages=list(e.stages),
        digests=list(e.digests),
        plans=list(e.plans),
        profile=None if e.profile is None else _profile(e.profile),
        variables=e.variables,
        disturbances=list(e.disturbances),
        missing=list(e.missing),
    )


def _experiment(e: Explanation) -> ExperimentPart | None:
    found = e.experiment
    if found is None:
        return None
    return ExperimentPart(
        run=found.run_id,
        metric=found.metric.name,
        answer=list(experiment_sentences(e)),
        loss=found.loss,
        given_back=list(found.given_back),
        remaining=found.remaining,
        untried=list(found.untried),
        left_out=list(found.left_out),
        not_steady=found.unsteady or None,
    )


def _side(side: Explained) -> SidePart:
    return SidePart(
        label=side.label,
        levels=dict(side.levels),
        trials=len(side.trials),
        profiled_trials=len(side.profiled),
        account=side.account,
        statement_accounts=list(side.statement_accounts),
        coverage=side.coverage,
        flat_profile=side.flat,
    )


def _profile(found: ProfileComparison) -> ProfilePart:
    return ProfilePart(
        blocks=list(found.blocks),
        by=found.by,
        a_cpu_us=found.a_cpu_us,
        b_cpu_us=found.b_cpu_us,
        cpu=found.cpu,
        groups=list(found.groups),
        functions=list(found.functions),
        call_paths=list(found.paths),
    )
